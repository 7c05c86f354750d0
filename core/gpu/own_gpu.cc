// SPDX-License-Identifier: Apache-2.0
#include "core/gpu/own_gpu.h"

#include <fmt/format.h>

#include <algorithm>

namespace hora {

std::vector<std::shared_ptr<Event>> latest(const std::vector<Readiness>& all) {
  std::vector<const Readiness*> last;  // few: users have few streams
  for (const auto& each : all) {
    if (!each.event) continue;
    const auto known = std::find_if(last.begin(), last.end(), [&](const Readiness* other) {
      return other->stream == each.stream && !is_each_threads_own(each.stream);
    });
    if (known == last.end()) {
      last.push_back(&each);
    } else if ((*known)->turn < each.turn) {
      *known = &each;
    }
  }
  std::vector<std::shared_ptr<Event>> events;
  events.reserve(last.size());
  for (const auto* each : last) events.push_back(each->event);
  return events;
}

const NcclModule& OwnGpu::module() {
  const std::lock_guard lock(mutex_);
  return loaded();
}

/// With the mutex.
const NcclModule& OwnGpu::loaded() {
  if (module_ == nullptr) module_ = &load_nccl();
  return *module_;
}

std::shared_ptr<Gpu> OwnGpu::open(int index) {
  const std::lock_guard lock(mutex_);
  if (!gpu_) gpu_ = loaded().open_gpu(index);
  if (gpu_->index() == index) return gpu_;
  throw Error(
      Code::invalid_argument,
      fmt::format("this rank uses {}, and a rank uses one GPU: start one rank for each GPU, and keep its "
                  "tensors on cuda:<local rank> (torch.cuda.set_device(hvd.local_rank()))",
                  hora::name({DeviceKind::cuda, gpu_->index()})));
}

std::shared_ptr<Gpu> OwnGpu::open() {
  if (auto gpu = opened()) return gpu;
  const int gpus = module().gpus();
  if (gpus == 0) throw Error(Code::unavailable, "there is no GPU that this process may use");
  return open(local_rank_ % gpus);
}

Readiness OwnGpu::mark(Gpu& gpu, void* stream) {
  const std::lock_guard lock(marking_);
  return {gpu.mark(stream), stream, ++turn_};
}

std::shared_ptr<Gpu> OwnGpu::opened() const {
  const std::lock_guard lock(mutex_);
  return gpu_;
}

}  // namespace hora
