// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "runner/launch/agent_message.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace hora::hrun {

/// The difference between the agent's clock and ours, from the fastest answer to a ping so far.
class ClockOffset {
 public:
  /// `now`: when the answer came, in microseconds of our clock.
  void add(const Pong& pong, std::uint64_t now) {
    const std::uint64_t trip = now - pong.echo;
    if (trip >= best_) return;
    best_ = trip;
    offset_ = static_cast<std::int64_t>(pong.own - pong.echo - trip / 2);
  }
  /// A time of the agent's clock by ours, in microseconds. Never later than now: a reported event has
  /// happened.
  [[nodiscard]] TimePoint ours(std::uint64_t theirs, TimePoint now) const {
    const std::chrono::microseconds since(static_cast<std::int64_t>(theirs) - offset_);
    return std::min(now, TimePoint(std::chrono::duration_cast<Clock::duration>(since)));
  }

 private:
  std::uint64_t best_ = std::numeric_limits<std::uint64_t>::max();
  std::int64_t offset_ = 0;
};

}  // namespace hora::hrun
