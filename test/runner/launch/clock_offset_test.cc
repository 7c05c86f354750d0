// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/clock_offset.h"

#include <gtest/gtest.h>

#include <random>

namespace hora::hrun {
namespace {

TimePoint at(std::uint64_t microseconds) {
  return TimePoint(std::chrono::duration_cast<Clock::duration>(std::chrono::microseconds(microseconds)));
}

TEST(ClockOffset, IsWrongByAtMostHalfTheFastestTrip) {
  std::mt19937 random(1);
  constexpr std::int64_t kAhead = -5'000'000;  // the agent's clock, of ours
  ClockOffset offset;
  std::uint64_t now = 100'000'000;
  std::uint64_t fastest = std::numeric_limits<std::uint64_t>::max();
  for (int i = 0; i < 200; ++i) {
    const std::uint64_t there = random() % 1000;
    const std::uint64_t back = random() % 1000;
    const std::uint64_t sent = now;
    now += there + back;
    fastest = std::min(fastest, there + back);
    offset.add({sent, sent + there + kAhead}, now);
    const std::uint64_t event = now - 500'000;
    const auto wrong = offset.ours(event + kAhead, at(now)) - at(event);
    EXPECT_LE(std::chrono::abs(wrong), std::chrono::microseconds(fastest / 2 + 1));
  }
}

TEST(ClockOffset, PutsNoEventIntoTheFuture) {
  ClockOffset offset;
  offset.add({1000, 5000}, 1000);
  EXPECT_EQ(offset.ours(9000, at(2000)), at(2000));
  EXPECT_EQ(offset.ours(5500, at(2000)), at(1500));
}

}  // namespace
}  // namespace hora::hrun
