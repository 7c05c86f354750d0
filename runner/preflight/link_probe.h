// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <chrono>

namespace hora::hrun {

/// The figures of a connection between two hosts. A value.
struct LinkFigures {
  double latency = 0;  ///< microseconds: half a round trip of 64 bytes, the median
  double there = 0;    ///< MB/s, from the asking side, over one socket
  double back = 0;     ///< MB/s, to the asking side
  bool operator==(const LinkFigures&) const = default;
};

// Both sides over a connected stream socket, blocking up to the deadline: round trips, and then bytes in
// either direction, for about `time` each. They throw Error(timeout), and Error(unavailable) when the
// connection breaks.
[[nodiscard]] LinkFigures ask_link(int fd, std::chrono::milliseconds time, TimePoint deadline);
void answer_link(int fd, std::chrono::milliseconds time, TimePoint deadline);

}  // namespace hora::hrun
