// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/repeated_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace hora {
namespace {

using testing::ElementsAre;

constexpr TimePoint kFirstCame{std::chrono::hours(1)};
const std::vector<Late> kNobodyLate;

Arrival arrival_of(const RankSet& ranks, std::uint64_t heard, int seconds = 0) {
  const TimePoint came = kFirstCame + std::chrono::seconds(seconds);
  return {ranks, heard, came, came, kNobodyLate};
}

TEST(RepeatedSteps, RanksJoinAStepWithExactlyTheSameDecisions) {
  RepeatedSteps steps;
  const RankSet first(0, 2);
  const RankSet second(2);
  EXPECT_FALSE(steps.join({1, 2}, arrival_of(first, 7)));
  steps.begin({1, 2}, arrival_of(first, 7));
  EXPECT_FALSE(steps.join({1, 2, 3}, arrival_of(second, 7)));
  EXPECT_FALSE(steps.join({1, 2}, arrival_of(first, 7))) << "they ask twice";
  EXPECT_TRUE(steps.join({1, 2}, arrival_of(second, 7)));
  const auto all = steps.extract_all();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].arrivals.asked, RankSet(0, 3));
  EXPECT_THAT(all[0].ids, ElementsAre(1, 2));
  EXPECT_TRUE(steps.empty());
}

TEST(RepeatedSteps, OverlappingStepsAreExtracted) {
  const RankSet rank(0);
  for (DecisionId first = 1; first < 10; ++first) {
    RepeatedSteps steps;
    steps.begin({3, 5}, arrival_of(rank, 7));
    steps.begin({6, 7}, arrival_of(rank, 7));
    const auto extracted = steps.extract_overlapping({first, first + 1});
    std::size_t expected = first + 1 >= 3 && first <= 5 ? 1 : 0;
    if (first + 1 >= 6 && first <= 7) ++expected;
    EXPECT_EQ(extracted.size(), expected) << first;
    EXPECT_EQ(steps.extract_all().size(), 2 - expected);
  }
}

TEST(RepeatedSteps, TellsTheOldestAndTheFewestVerdictsHeard) {
  RepeatedSteps steps;
  EXPECT_EQ(steps.oldest(), TimePoint::max());
  EXPECT_EQ(steps.fewest_heard(), std::numeric_limits<std::uint64_t>::max());
  const RankSet rank(0);
  steps.begin({1}, arrival_of(rank, 7, 5));
  steps.begin({2}, arrival_of(rank, 9, 3));
  EXPECT_EQ(steps.oldest(), kFirstCame + std::chrono::seconds(3));
  EXPECT_EQ(steps.fewest_heard(), 7u);
}

}  // namespace
}  // namespace hora
