// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/status.h>

#include <atomic>
#include <mutex>

namespace hora::nccl {

/// Why all waiting for NCCL has to end, once there is a reason: the first one counts. Thread-safe.
class StopFlag {
 public:
  void set(const Status& why) noexcept {
    const std::lock_guard lock(mutex_);
    if (is_set_.load(std::memory_order_relaxed)) return;
    why_ = why;
    is_set_.store(true, std::memory_order_release);  // `why_` is not written any more
  }
  [[nodiscard]] bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  /// Throws Error with the reason, if there is one.
  void check() const {
    if (is_set()) throw Error(why_);
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> is_set_{false};
  Status why_;
};

}  // namespace hora::nccl
