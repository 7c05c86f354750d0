// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl/stop_flag.h"
#include "core/base/clock.h"

#include <chrono>
#include <string>

namespace hora::nccl {

/// Waiting for what is only seen by looking: `while (!done()) deadline.pause();`. At first there is no pause,
/// then there are ever longer ones, of a millisecond at most. One thread's; `stop_flag` lives longer.
class PollDeadline {
 public:
  /// `what` says in an error what did not come to an end: "ncclCommSplit (rank 0 of 2)".
  PollDeadline(const StopFlag& stop_flag, std::chrono::milliseconds most, std::string what);

  /// Throws Error with the stop flag's reason; Error(timeout) when it has been too long.
  void pause();

 private:
  const StopFlag& stop_flag_;
  std::chrono::milliseconds most_;
  std::string what_;
  TimePoint began_ = Clock::now();
  std::chrono::microseconds next_{0};
};

}  // namespace hora::nccl
