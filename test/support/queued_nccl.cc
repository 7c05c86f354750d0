// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/rendezvous.h"
#include "core/base/clock.h"
#include "core/device/await.h"
#include "test/support/queued_gpu.h"

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace hora {
namespace {

constexpr int kGpus = 4;
constexpr std::chrono::seconds kMostWaitBeforeASplit{1};
std::atomic<bool> connections_are_held{false};
std::atomic<int> collective_calls{0};

/// The communicators that are being made, by the number in their id.
class PendingCommunicators {
 public:
  std::uint64_t make() {
    const std::lock_guard lock(mutex_);
    return ++last_;
  }
  std::shared_ptr<local::Rendezvous> join(std::uint64_t number, int places) {
    const std::lock_guard lock(mutex_);
    auto& coming = pending_[number];
    if (!coming.rendezvous) coming.rendezvous = std::make_shared<local::Rendezvous>(places);
    auto rendezvous = coming.rendezvous;
    if (++coming.came == places) pending_.erase(number);
    return rendezvous;
  }

 private:
  struct Coming {
    std::shared_ptr<local::Rendezvous> rendezvous;
    int came = 0;
  };
  std::mutex mutex_;
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, Coming> pending_;
};

PendingCommunicators& pending_communicators() {
  static PendingCommunicators all;
  return all;
}

/// Has another collective's calls made on a queue, some time later. A call that fails there, as another
/// rank has aborted it, ends when this rank's lane is aborted, as on a GPU.
class QueuedCollective final : public Collective {
 public:
  QueuedCollective(std::shared_ptr<Collective> inner, Stream& stream, std::shared_ptr<Gate> aborted)
      : inner_(std::move(inner)), stream_(stream), aborted_(std::move(aborted)) {}

  std::shared_ptr<std::byte> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  [[nodiscard]] std::size_t pack_below() const override { return 1000; }
  [[nodiscard]] bool owns(const void* /*data*/) const override { return false; }
  void allreduce(std::span<const Segment> segments, const Reduction& reduction) override {
    later([all = std::vector(segments.begin(), segments.end()), reduction](Collective& inner) {
      inner.allreduce(all, reduction);
    });
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    later([data, bytes, root](Collective& inner) { inner.broadcast(data, bytes, root); });
  }
  void allgather(const void* input, void* output, std::span<const std::size_t> bytes) override {
    later([input, output, all = std::vector(bytes.begin(), bytes.end())](Collective& inner) {
      inner.allgather(input, output, all);
    });
  }
  void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) override {
    later([input, output, all = std::vector(bytes.begin(), bytes.end())](Collective& inner) {
      inner.alltoall(input, output, all);
    });
  }
  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                     const Reduction& reduction) override {
    later([input, output, all = std::vector(counts.begin(), counts.end()), reduction](Collective& inner) {
      inner.reducescatter(input, output, all, reduction);
    });
  }
  void barrier() override {
    later([](Collective& inner) { inner.barrier(); });
  }
  std::unique_ptr<Collective> split(std::span<const int> members) override {
    const TimePoint end = Clock::now() + kMostWaitBeforeASplit;
    await(stream_.mark().get(), [&] {
      if (Clock::now() > end) throw Error(Code::timeout, "NCCL is split, and work is under way");
    });
    auto part = inner_->split(members);
    if (Clock::now() > end) throw Error(Code::timeout, "NCCL is split, and another rank comes late");
    if (!part) return nullptr;
    return std::make_unique<QueuedCollective>(std::move(part), stream_, aborted_);
  }
  void abort(const Status& /*why*/) noexcept override {}

 private:
  void later(std::function<void(Collective&)> call) {
    ++collective_calls;
    put_on_queue(stream_, [inner = inner_, aborted = aborted_, call = std::move(call)] {
      try {
        call(*inner);
      } catch (const Error&) {
        aborted->wait();
      }
    });
  }
  std::shared_ptr<Collective> inner_;
  Stream& stream_;
  std::shared_ptr<Gate> aborted_;
};

class QueuedNccl final : public NcclLane {
 public:
  explicit QueuedNccl(Stream& stream) : stream_(stream) {}
  std::unique_ptr<Collective> connect(const NcclId& id, int place, int places) override {
    while (connections_are_held) {
      if (stopped_) throw Error(Code::aborted, "NCCL was stopped");
      std::this_thread::yield();
    }
    std::uint64_t number = 0;
    std::memcpy(&number, id.data(), sizeof(number));
    std::shared_ptr<Collective> inner =
        local::make_local_collective(pending_communicators().join(number, places), place);
    made_.push_back(inner);
    return std::make_unique<QueuedCollective>(std::move(inner), stream_, aborted_);
  }
  void check() override {}
  void stop(const Status& /*why*/) noexcept override { stopped_ = true; }
  bool abort() noexcept override {
    for (const auto& collective : made_) collective->abort({Code::aborted, "NCCL was aborted"});
    aborted_->open();
    return true;
  }

 private:
  Stream& stream_;
  std::atomic<bool> stopped_{false};
  std::vector<std::shared_ptr<Collective>> made_;
  std::shared_ptr<Gate> aborted_ = std::make_shared<Gate>();
};

std::shared_ptr<Gpu> open_gpu(int index) {
  if (index >= 0 && index < kGpus) return make_queued_gpu(index);
  throw Error(Code::invalid_argument, "there are 4 GPUs here, cuda:0 to cuda:3");
}

NcclId make_id() {
  NcclId id{};
  const std::uint64_t number = pending_communicators().make();
  std::memcpy(id.data(), &number, sizeof(number));
  return id;
}

}  // namespace

const NcclModule& queued_nccl() {
  static const NcclModule module{
      [] { return kGpus; },
      open_gpu,
      [](const std::string& /*named*/, const std::string& /*packaged*/) {
        return NcclLibrary{"libnccl.so.2", 22809};
      },
      make_id,
      [](const std::shared_ptr<Gpu>& gpu, std::size_t bytes) { return gpu->allocate(bytes); },
      [](const std::shared_ptr<Gpu>& /*gpu*/, const void* /*data*/) { return std::uint64_t{0}; },
      [](std::shared_ptr<Gpu> /*gpu*/, Stream& stream, const NcclOptions& /*options*/) {
        return std::unique_ptr<NcclLane>(std::make_unique<QueuedNccl>(stream));
      }};
  return module;
}

HeldConnections::HeldConnections() { connections_are_held = true; }
void HeldConnections::let_go() { connections_are_held = false; }
int queued_nccl_calls() { return collective_calls; }

}  // namespace hora
