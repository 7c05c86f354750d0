// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/slots.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const TimePoint kStart{std::chrono::hours(1)};
constexpr ReplacementPolicy kPolicy{.most = 100, .shortest_rest = seconds(10), .longest_rest = seconds(35)};

/// The slots of hosts all of which have processes.
Slots full(const std::vector<int>& capacities, const ReplacementPolicy& policy = kPolicy) {
  std::vector<HostSlots> hosts;
  int ranks = 0;
  for (const int capacity : capacities) {
    hosts.push_back({std::string(1, static_cast<char>('a' + hosts.size())), capacity});
    ranks += capacity;
  }
  return {place(hosts, ranks, false), capacities, policy};
}

std::vector<int> take(Slots& slots, int count, TimePoint now) {
  std::vector<int> ranks;
  for (const auto& placement : slots.take(count, now)) ranks.push_back(placement.rank);
  return ranks;
}

TEST(Slots, AreFreeAtOnceAfterAFailureAndThenAfterRestsThatGrow) {
  Slots slots = full({2});
  TimePoint now = kStart;
  for (const int rest : {0, 10, 20, 35, 35}) {
    EXPECT_EQ(slots.fail(1, now)->until, now + seconds(rest));
    EXPECT_EQ(slots.next(), now + seconds(rest));
    EXPECT_THAT(take(slots, 2, now + seconds(rest) - milliseconds(1)), IsEmpty());
    now += seconds(rest);
    EXPECT_THAT(take(slots, 2, now), ElementsAre(1));
    EXPECT_THAT(take(slots, 2, now), IsEmpty());
    now += seconds(30);  // for which its process runs
  }
  EXPECT_EQ(slots.fail(0, now)->until, now) << "another rank";
  EXPECT_EQ(slots.fail(1, now + seconds(6))->until, now + seconds(6)) << "it has run for 36 s";
}

TEST(Slots, OfAHostThatFailsRestTogetherIfThereAreOthers) {
  for (const bool several : {false, true}) {
    Slots slots = full(several ? std::vector{4, 1} : std::vector{5});
    EXPECT_EQ(slots.fail(0, kStart)->until, kStart);
    EXPECT_EQ(slots.fail(1, kStart)->until, kStart);
    const auto third = slots.fail(2, kStart);
    EXPECT_EQ(third->until, kStart + seconds(several ? 10 : 0));
    EXPECT_EQ(third->of_host, several);
    EXPECT_EQ(slots.fail(4, kStart)->until, kStart) << "of the other host";
    EXPECT_EQ(take(slots, 9, kStart), several ? std::vector{4} : (std::vector{0, 1, 2, 4}));
    EXPECT_EQ(take(slots, 9, kStart + seconds(10)), several ? (std::vector{0, 1, 2}) : std::vector<int>{});
  }
}

TEST(Slots, GetNoMoreProcessesInPlaceOfOthersThanTheUserWants) {
  Slots slots = full({3}, {.most = 2});
  EXPECT_TRUE(slots.fail(0, kStart));
  EXPECT_TRUE(slots.fail(1, kStart));
  EXPECT_FALSE(slots.fail(2, kStart));
  EXPECT_EQ(slots.closed(), 1);
  EXPECT_THAT(take(slots, 9, kStart), ElementsAre(0, 1));
  EXPECT_FALSE(slots.fail(0, kStart));
  EXPECT_EQ(slots.next(), TimePoint::max());
  slots.open_all();
  EXPECT_EQ(slots.closed(), 0);
  EXPECT_THAT(take(slots, 9, kStart + seconds(10)), ElementsAre(0, 2)) << "the user wants them again";
}

TEST(Slots, OfALostHostRestAndThenItIsTriedAgain) {
  Slots slots = full({2, 2});
  for (const int rank : {2, 3}) slots.replace(rank);
  EXPECT_EQ(slots.lose_host(1, kStart), kStart + seconds(10));
  EXPECT_THAT(take(slots, 9, kStart), IsEmpty());
  EXPECT_EQ(slots.next(), kStart + seconds(10));
  EXPECT_THAT(take(slots, 9, kStart + seconds(10)), ElementsAre(2, 3));
  EXPECT_EQ(slots.lose_host(1, kStart + seconds(11)), kStart + seconds(31));
}

TEST(Slots, ThatNobodyHasUsedGetRanksOfTheirOwn) {
  Slots slots(place({{"a", 2}}, 2, false), {3, 1}, kPolicy);
  EXPECT_THAT(take(slots, 1, kStart), ElementsAre(2));
  const auto last = slots.take(9, kStart);
  ASSERT_EQ(last.size(), 1U);
  EXPECT_EQ(last[0], (RankPlacement{.rank = 3, .size = 4, .local_rank = 0, .local_size = 1, .host = 1}));
  EXPECT_EQ(slots.add_host(1), 2);
  EXPECT_THAT(take(slots, 9, kStart), ElementsAre(4));
}

TEST(Slots, ThatAHostDoesNotHaveAnyMoreAreLeftAndComeBack) {
  Slots slots = full({2, 2});
  slots.set_capacity(1, 1);
  EXPECT_THAT(slots.surplus(), ElementsAre(3));
  slots.set_capacity(1, 0);
  EXPECT_THAT(slots.surplus(), ElementsAre(2, 3));
  slots.release(3);
  EXPECT_THAT(slots.surplus(), ElementsAre(2));
  EXPECT_THAT(take(slots, 9, kStart), IsEmpty());
  EXPECT_EQ(slots.next(), TimePoint::max());
  slots.set_capacity(1, 2);
  EXPECT_THAT(take(slots, 9, kStart), ElementsAre(3));
}

TEST(Slots, ThatAProcessHasLeftStayEmpty) {
  Slots slots = full({2});
  slots.close(1);
  EXPECT_EQ(slots.closed(), 1);
  EXPECT_THAT(take(slots, 9, kStart), IsEmpty());
  slots.set_capacity(0, 1);
  EXPECT_EQ(slots.closed(), 0) << "the host has not even got that slot";
}

}  // namespace
}  // namespace hora::hrun
