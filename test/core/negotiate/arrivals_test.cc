// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/arrivals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hora {
namespace {

using std::chrono::milliseconds;

TEST(Arrivals, InAnyOrderTellHowFarRanksAreBehindTheFirst) {
  std::mt19937 random(11);
  std::vector<int> ranks{0, 1, 2, 3, 4, 5, 6, 7};
  const TimePoint begin{std::chrono::hours(1)};
  const auto asked_at = [&](int rank) { return begin + milliseconds(10 * rank); };
  for (int course = 0; course < 100; ++course) {
    std::shuffle(ranks.begin(), ranks.end(), random);
    Arrivals all;
    for (const int rank : ranks) {
      all.add({RankSet(rank), static_cast<std::uint64_t>(20 - rank), asked_at(rank), begin, {}});
    }
    EXPECT_EQ(all.asked, RankSet(0, 8));
    EXPECT_EQ(all.heard, 13u);
    EXPECT_EQ(all.since, begin);
    for (const int rank : ranks) {
      Clock::duration behind{};
      for (const auto& late : all.late) {
        if (late.ranks.contains(rank)) behind = std::max(behind, late.behind);
      }
      EXPECT_EQ(behind, asked_at(rank) - begin) << "rank " << rank;
    }
  }
}

TEST(Arrivals, LatenessWithinABallotAddsToThatOfTheBallot) {
  const TimePoint begin{std::chrono::hours(1)};
  Arrivals all({RankSet(0), 1, begin, begin, {}});
  all.add({RankSet(1, 3), 1, begin + milliseconds(5), begin, {{RankSet(2), milliseconds(3)}}});
  EXPECT_EQ(all.late, (std::vector<Late>{{RankSet(1, 3), milliseconds(5)}, {RankSet(2), milliseconds(8)}}));
}

TEST(Arrivals, LessThanAMillisecondIsNotNoted) {
  const TimePoint begin{std::chrono::hours(1)};
  Arrivals all({RankSet(0), 1, begin, begin, {}});
  all.add({RankSet(1), 1, begin + std::chrono::microseconds(999), begin, {}});
  all.add({RankSet(2), 1, begin - std::chrono::microseconds(999), begin, {}});
  EXPECT_TRUE(all.late.empty());
}

TEST(AddLate, ALongListKeepsTheRanksThatAreLatest) {
  std::vector<Late> late;
  for (int rank = 0; rank < 500; ++rank) add_late(late, RankSet(rank), milliseconds(rank * 7 % 500));
  EXPECT_LT(late.size(), 32u);
  for (int latest = 490; latest < 500; ++latest) {
    EXPECT_TRUE(std::any_of(late.begin(), late.end(), [&](const Late& one) {
      return one.behind == milliseconds(latest);
    })) << latest;
  }
  add_late(late, late.front().ranks, std::chrono::hours(1));
  EXPECT_EQ(late.front().behind, std::chrono::hours(1)) << "the longest time of the same ranks counts";
}

}  // namespace
}  // namespace hora
