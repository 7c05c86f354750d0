// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/locked_order.h"

#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

namespace hora {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

/// Three ranks that have locked the order of "a", "b" and "c", whose numbers are 1, 2 and 3.
class ThreeLocked : public testing::Test {
 protected:
  static constexpr int kSize = 3;

  ThreeLocked() : votes_(make_votes(kSize)) {
    Verdict first;
    for (const char* name : {"a", "b", "c"}) {
      Verdict::Item item;
      item.decision.request = tensor(name);
      first.items.push_back(item);
    }
    Verdict lock;
    lock.lock = {1, 2, 3};
    for (int rank = 0; rank < kSize; ++rank) {
      Voter& voter = voters_.emplace_back(kWorld);
      for (const auto& item : first.items) voter.note(item.decision.request);
      voter.apply(first);
      orders_.emplace_back(rank, votes_[static_cast<std::size_t>(rank)].get(), voter).begin(lock, false);
    }
  }

  LockedOrder& order(int rank) { return orders_[static_cast<std::size_t>(rank)]; }
  /// The decisions that the rank makes without waiting.
  std::vector<DecisionId> step(int rank) {
    auto decided = order(rank).step(now_, false);
    if (!decided) return {};
    for (const auto id : decided->ids) voters_[static_cast<std::size_t>(rank)].repeated(id);
    behind_ = decided->behind;
    return decided->ids;
  }
  /// Each rank gets some turns. Returns whether the lock has ended on all.
  bool ends_on_all() {
    int ended = 0;
    for (int turn = 0; turn < 4; ++turn) {
      for (int rank = 0; rank < kSize; ++rank) {
        if (order(rank).holds()) step(rank);
        if (const auto end = order(rank).take_ended()) {
          ++ended;
          end_ = *end;
        }
      }
    }
    return ended == kSize;
  }

  TimePoint now_{std::chrono::hours(1)};
  std::vector<std::unique_ptr<ReadinessVote>> votes_;
  std::deque<Voter> voters_;
  std::deque<LockedOrder> orders_;
  std::vector<Clock::duration> behind_;
  LockedOrder::Ended end_;
};

TEST_F(ThreeLocked, AnyCourseOfStepsIsDecidedInTheLockedOrderOnAllRanks) {
  std::mt19937 random(5);
  std::vector<std::vector<std::string>> to_ask(kSize);
  std::vector<std::vector<DecisionId>> decided(kSize);
  for (std::size_t steps = 1; steps <= 100; ++steps) {
    for (auto& names : to_ask) {
      names = {"a", "b", "c"};
      std::shuffle(names.begin(), names.end(), random);
    }
    for (int turn = 0; turn < 1000; ++turn) {
      const int rank = static_cast<int>(random() % kSize);
      auto& names = to_ask[static_cast<std::size_t>(rank)];
      if (!names.empty() && random() % 2 == 0) {
        order(rank).ask({tensor(names.back())});
        names.pop_back();
        continue;
      }
      const auto ids = step(rank);
      auto& all = decided[static_cast<std::size_t>(rank)];
      all.insert(all.end(), ids.begin(), ids.end());
    }
    for (const auto& all : decided) ASSERT_EQ(all.size(), 3 * steps);
  }
  for (const auto& all : decided) {
    for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], i % 3 + 1);
  }
}

TEST_F(ThreeLocked, RankZeroLearnsHowLongOthersWaited) {
  for (int rank = 0; rank < kSize; ++rank) {
    order(rank).ask({tensor("a")});
    EXPECT_EQ(order(rank).waits_for_others(), false);
    EXPECT_EQ(step(rank).empty(), rank != 2);
    EXPECT_TRUE(behind_.empty()) << "only rank 0 needs it";
    now_ += milliseconds(10);
  }
  EXPECT_TRUE(order(0).waits_for_others());
  EXPECT_TRUE(order(0).is_complete());
  EXPECT_THAT(step(0), ElementsAre(1));
  EXPECT_THAT(behind_, ElementsAre(milliseconds(0), milliseconds(10), milliseconds(20)));
}

TEST_F(ThreeLocked, AnotherTensorEndsItOnAllRanks) {
  order(1).ask({tensor("x")});
  EXPECT_TRUE(order(1).has_more());
  EXPECT_TRUE(ends_on_all());
  EXPECT_FALSE(end_.dear);
  EXPECT_EQ(end_.decisions, 0u);
  EXPECT_THAT(order(1).take_divergence(), HasSubstr("rank 1 differed at 'a': it has submitted 'x'"));
  EXPECT_EQ(order(1).take_divergence(), "") << "once";
  EXPECT_EQ(order(0).take_divergence(), "");
}

TEST_F(ThreeLocked, ARankThatWaitsForLongEndsIt) {
  order(0).ask({tensor("a")});
  EXPECT_THAT(step(0), ElementsAre());
  const TimePoint end = order(0).wait_ends_at(now_, false);
  ASSERT_LT(end, TimePoint::max());
  now_ = end - milliseconds(1);
  EXPECT_FALSE(ends_on_all());
  now_ = end;
  EXPECT_TRUE(ends_on_all());
  EXPECT_TRUE(end_.dear);
  EXPECT_THAT(order(0).take_divergence(),
              HasSubstr("rank 0 differed at 'a': it has not been submitted by ranks 1 and 2"));
}

TEST_F(ThreeLocked, ARankThatDoesNotAnswerIsMissingWhenTheLockIsToEnd) {
  EXPECT_EQ(order(0).wait_ends_at(now_, false), TimePoint::max()) << "it waits for nothing";
  order(0).end({});
  EXPECT_THAT(step(0), ElementsAre());
  EXPECT_THAT(step(1), ElementsAre());
  const auto waiting = order(0).waiting();
  ASSERT_TRUE(waiting);
  EXPECT_EQ(waiting->name, "a");
  EXPECT_EQ(waiting->since, now_);
  EXPECT_THAT(waiting->asked, ElementsAre(0, 1));
  EXPECT_THAT(waiting->missing, ElementsAre(2));
}

TEST(LockedOrder, RefusesALockThatIsNotPossible) {
  Voter voter(kWorld);
  Verdict lock;
  lock.lock = {1};
  LockedOrder alone(0, nullptr, voter);
  EXPECT_THROW(alone.begin(lock, false), Error) << "there is no vote";
  EXPECT_FALSE(alone.holds());
  EXPECT_FALSE(alone.waits_for_others());
  alone.end("does nothing");
  EXPECT_EQ(alone.take_divergence(), "");
}

}  // namespace
}  // namespace hora
