// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/own_gpu.h"

#include <fmt/format.h>

namespace hora {

std::shared_ptr<Gpu> OwnGpu::open(int index) {
  const std::lock_guard lock(mutex_);
  if (!gpu_) gpu_ = module().open_gpu(index);
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

std::shared_ptr<Gpu> OwnGpu::opened() const {
  const std::lock_guard lock(mutex_);
  return gpu_;
}

}  // namespace hora
