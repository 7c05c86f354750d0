// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace hora {

/// The clock of deadlines and durations: the same for all processes of a host, and never set back.
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

/// SegmentView ones, toward zero.
[[nodiscard]] constexpr std::chrono::milliseconds in_milliseconds(Clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time);
}

}  // namespace hora
