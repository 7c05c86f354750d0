// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/poll_deadline.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <thread>

namespace hora::nccl {
namespace {

using std::chrono::microseconds;

// A call that NCCL carries out at once takes less than this; a pause takes some 50 microseconds, however
// short.
constexpr microseconds kBusy{50};
constexpr microseconds kFirst{20};
constexpr microseconds kLongest{1'000};

}  // namespace

PollDeadline::PollDeadline(const StopFlag& stop_flag, std::chrono::milliseconds most, std::string what)
    : stop_flag_(stop_flag), most_(most), what_(std::move(what)) {}

void PollDeadline::pause() {
  stop_flag_.check();
  const auto passed = Clock::now() - began_;
  if (passed > most_) {
    throw Error(
        Code::timeout,
        fmt::format("{} has not come to an end after {:.1f} s: another rank has not got there, or cannot "
                    "be reached; NCCL_DEBUG=INFO makes NCCL say what it waits for",
                    what_, std::chrono::duration<double>(passed).count()));
  }
  if (passed < kBusy) return std::this_thread::yield();
  next_ = std::clamp(next_ * 2, kFirst, kLongest);
  std::this_thread::sleep_for(next_);
}

}  // namespace hora::nccl
