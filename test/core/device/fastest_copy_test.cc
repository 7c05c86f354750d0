// SPDX-License-Identifier: Apache-2.0
#include "core/device/fastest_copy.h"

#include "core/device/contest.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace hora {
namespace {

TEST(FastestCopy, CopiesInEitherWay) {
  FastestCopy fastest_copy;
  std::vector<std::byte> from(300'000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i * 7);
  for (int i = 0; i < 40; ++i) {
    std::vector<std::byte> to(from.size());
    fastest_copy.copy(to.data(), from.data(), from.size());
    ASSERT_EQ(to, from);
  }
  fastest_copy.copy(nullptr, nullptr, 0);
}

TEST(Contest, TriesBothWaysAndKeepsTheFaster) {
  for (const std::size_t faster : {0u, 1u}) {
    Contest contest(100);
    int tried[2] = {};
    for (int i = 0; i < 50; ++i) {
      const std::size_t way = contest.way(1000);
      ++tried[way];
      contest.note(way, 1000, std::chrono::milliseconds(way == faster ? 1 : 2));
    }
    EXPECT_EQ(contest.way(1000), faster);
    EXPECT_EQ(tried[1 - faster], 8);
  }
}

TEST(Contest, IsNotMistakenWhereTwoKindsOfCallsAlternate) {
  Contest contest(100);
  for (int i = 0; i < 50; ++i) {
    const std::size_t way = contest.way(1000);
    const int kind = i % 2 == 0 ? 1 : 4;  // whichever way it goes
    contest.note(way, 1000, std::chrono::milliseconds(kind * (way == 1 ? 10 : 11)));
  }
  EXPECT_EQ(contest.way(1000), 1u);
}

TEST(Contest, DoesNotTimeWhatIsTooSmall) {
  Contest contest(100);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(contest.way(10), 0u);
    contest.note(0, 10, std::chrono::milliseconds(1));
  }
}

TEST(Contest, IsNoneWhereOneWayIsTold) {
  Contest contest(100, true);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(contest.way(1000), 1u);
    contest.note(1, 1000, std::chrono::seconds(1));
  }
}

TEST(FastestCopy, CopiesInTheWayThatIsTold) {
  for (const bool streams : {false, true}) {
    FastestCopy fastest_copy(streams);
    const std::vector<std::byte> from(100'000, std::byte{7});
    std::vector<std::byte> to(from.size());
    fastest_copy.copy(to.data(), from.data(), from.size());
    EXPECT_EQ(to, from);
  }
}

}  // namespace
}  // namespace hora
