// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl_module.h"

#include <hora/config.h>
#include <hora/device.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace hora {

/// The point of a user's stream before which what was made there is not touched; none on the host. A value.
struct Readiness {
  std::shared_ptr<Event> event;
  void* stream = nullptr;
  std::uint64_t turn = 0;  ///< of two on one stream the later one has the higher; it is reached last
};

/// Whether it is cudaStreamPerThread: on each thread a stream of its own.
[[nodiscard]] inline bool is_each_threads_own(const void* stream) {
  return reinterpret_cast<std::uintptr_t>(stream) == 2;
}

/// The latest of each stream: what waits for these waits for all. Of cudaStreamPerThread all, as nobody knows
/// which are of one thread.
[[nodiscard]] std::vector<std::shared_ptr<Event>> latest(const std::vector<Readiness>& all);

/// The GPU that this rank uses, opened when it is first asked for: one, whichever tensors name first. Where
/// none has, the local rank's. Thread-safe.
class OwnGpu {
 public:
  /// `module`: null for libhora_nccl.so.
  explicit OwnGpu(int local_rank, const NcclModule* module = nullptr)
      : local_rank_(local_rank), module_(module) {}

  /// Throws Error(unavailable) if there is none here.
  [[nodiscard]] const NcclModule& module();

  /// The GPU of this number. Throws Error(invalid_argument) if there is no such one, or if this rank uses
  /// another; Error(unavailable) if GPUs cannot be used here.
  std::shared_ptr<Gpu> open(int index);
  /// The one that this rank uses; opens the local rank's if there is none yet. Throws as `open` does.
  std::shared_ptr<Gpu> open();
  /// The point that a user's stream of that GPU is at. Throws as Gpu::mark does.
  [[nodiscard]] Readiness mark(Gpu& gpu, void* stream);
  /// The one that this rank uses; null if there is none yet.
  [[nodiscard]] std::shared_ptr<Gpu> opened() const;

 private:
  const NcclModule& loaded();

  int local_rank_;
  mutable std::mutex mutex_;
  // Under the mutex; once set, constant. Every submission asks, and looking for the module's file takes long.
  const NcclModule* module_;
  std::shared_ptr<Gpu> gpu_;
  std::mutex marking_;      // so that turns and points of a stream are in the same order
  std::uint64_t turn_ = 0;  // under it
};

}  // namespace hora
