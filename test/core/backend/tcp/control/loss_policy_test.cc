// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/loss_policy.h"

#include "core/comm/unreachable_pairs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace hora::tcp {
namespace {

using std::chrono::milliseconds;

const TimePoint kOrigin = TimePoint(std::chrono::hours(1));

LossPolicy::Now at(int ms, bool launcher = false) { return {kOrigin + milliseconds(ms), false, launcher}; }

Watched rank_in_sight(int rank) { return {rank, fmt::format("rank {}", rank), true, false}; }
Watched rank_far_away(int rank) { return {rank, fmt::format("rank {}", rank), false, true}; }
Watched thread_here(int rank) { return {rank, fmt::format("rank {}", rank), false, false}; }

const RankEnd kKilled{1, true, "was killed by signal 9 (Killed)", ""};

TEST(LossPolicy, TellsAtOnceOfARankWhoseEndNobodyCanSee) {
  LossPolicy policy;
  const auto loss = policy.end(thread_here(1), "its connection closed", at(0));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->rank, 1);
  EXPECT_EQ(loss->status.message, "rank 1 is gone: its connection closed");
}

TEST(LossPolicy, WaitsForTheProcessBehindAConnectionThatHasEnded) {
  LossPolicy policy;
  EXPECT_FALSE(policy.end(rank_in_sight(1), "its connection closed", at(0)));
  EXPECT_EQ(policy.awaited_process(), 1);
  EXPECT_FALSE(policy.look(false, nullptr, at(100)));
  const auto loss = policy.look(true, nullptr, at(101));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->status.message, "rank 1 is gone: its process ended");
}

TEST(LossPolicy, TellsWhatTheLauncherSays) {
  LossPolicy policy;
  EXPECT_FALSE(policy.end(rank_in_sight(1), "its connection closed", at(0, true)));
  EXPECT_FALSE(policy.look(true, nullptr, at(10, true))) << "the launcher has a moment to tell how";
  const auto loss = policy.look(false, &kKilled, at(20, true));
  ASSERT_TRUE(loss);
  EXPECT_EQ(loss->status.message, "rank 1 is gone: it was killed by signal 9 (Killed)");
}

TEST(LossPolicy, KeepsTheReasonThatARankHasGivenForItself) {
  LossPolicy policy;
  const Loss own{1, {Code::aborted, "rank 1 failed: no space left"}};
  EXPECT_FALSE(policy.hear(own, rank_in_sight(1), true, at(0)));
  EXPECT_FALSE(policy.end(rank_in_sight(1), "its connection closed", at(5)));
  const auto loss = policy.look(true, nullptr, at(6));
  ASSERT_TRUE(loss);
  EXPECT_EQ(*loss, own);
}

TEST(LossPolicy, MergesThePairsOfAllRanksThatCannotReachOthers) {
  const auto pair = [](int from, int to) {
    const UnreachablePair unreachable{{from, 1, "a", ""}, {to, 1, "b", ""}, {"10.0.0.1:7 refused"}};
    return Loss{from, describe_unreachable(std::span(&unreachable, 1))};
  };
  LossPolicy policy;
  EXPECT_FALSE(policy.hear(pair(1, 2), thread_here(1), true, at(0)));
  EXPECT_FALSE(policy.hear(pair(3, 2), thread_here(3), true, at(100)));
  const auto loss = policy.look(false, nullptr, at(500));
  ASSERT_TRUE(loss);
  EXPECT_THAT(loss->status.message,
              testing::AllOf(testing::HasSubstr("rank 1"), testing::HasSubstr("rank 3")));
}

TEST(LossPolicy, EndsTheJobForABrokenTreeLinkIfRank0TellsNothing) {
  const Status why{Code::aborted, "two ranks have lost the connection over which ranks agree"};
  LossPolicy policy;
  policy.end_tree_link(why, kOrigin);
  EXPECT_FALSE(policy.holds_back());
  EXPECT_FALSE(policy.take_broken_link(kOrigin + milliseconds(2999)));
  EXPECT_EQ(policy.until(), kOrigin + milliseconds(3000));
  EXPECT_EQ(policy.take_broken_link(policy.until()), why);
  EXPECT_EQ(policy.until(), TimePoint::max());
}

/// A rank ends, and other ranks fail because of that. Times are milliseconds after the first that is seen of
/// it; the launcher's word and other things may never come.
struct Story {
  static constexpr int kNever = 1 << 20;

  explicit Story(unsigned seed) {
    std::mt19937 random(seed);
    const auto number = [&](int least, int most) {
      return std::uniform_int_distribution<int>(least, most)(random);
    };
    const auto flip = [&] { return number(0, 1) == 1; };
    far_away = flip();
    says = flip();
    connection = says ? number(0, 3000) : 0;
    process = connection + number(0, 700);
    launcher_tells = flip();
    launcher = launcher_tells && number(0, 9) > 0 ? process + number(0, 400) : kNever;
    for (int rank = 2; rank <= 4; ++rank) consequences.push_back(flip() ? number(0, 3000) : kNever);
  }

  bool far_away;
  bool says;       ///< first it says that it fails
  int connection;  ///< when its connection ends
  int process;     ///< when its process has ended
  bool launcher_tells;
  int launcher;                   ///< when the launcher tells how
  std::vector<int> consequences;  ///< when the connections of ranks 2, 3 and 4 end
};

/// The loss that the others hear of, and when.
std::pair<Loss, int> play(const Story& story) {
  LossPolicy policy;
  const auto watched = [&](int rank) { return story.far_away ? rank_far_away(rank) : rank_in_sight(rank); };
  std::optional<std::pair<Loss, int>> first;
  for (int time = 0; time <= 4500; ++time) {
    const auto now = at(time, story.launcher_tells);
    const auto take = [&](const std::optional<Loss>& loss) {
      if (loss && !first) first.emplace(*loss, time);
    };
    if (story.says && time == 0)
      take(policy.hear({1, {Code::aborted, "rank 1 failed: no data"}}, watched(1), true, now));
    if (time == story.connection) take(policy.end(watched(1), "its connection closed", now));
    for (int rank = 2; rank <= 4; ++rank) {
      if (time == story.consequences[static_cast<std::size_t>(rank - 2)])
        take(policy.end(watched(rank), "its connection closed", now));
    }
    const bool ended = policy.awaited_process() == 1 && time >= story.process;
    const bool told = policy.awaited() == 1 && time >= story.launcher;
    take(policy.look(ended, told ? &kKilled : nullptr, now));
  }
  EXPECT_FALSE(policy.holds_back());
  return first.value_or(std::pair(Loss{kNobody, {}}, 0));
}

TEST(LossPolicy, BlamesTheRankThatEndedFirstHoweverItEnds) {
  constexpr int kFailing = 2000;
  constexpr int kDying = 500;
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Story story(seed);
    const auto [loss, time] = play(story);
    ASSERT_EQ(loss.rank, 1);
    ASSERT_LE(time, kFailing) << "the others wait for it";
    const std::string& text = loss.status.message;
    if (story.says) {
      ASSERT_EQ(text.find("rank 1 failed: no data"), 0U) << text;
    }
    if (!story.far_away) {
      // The program that started the ranks sees the end of this one first.
      ASSERT_GE(time, std::min(story.process, story.says ? kFailing : kDying)) << text;
    }
    if (story.launcher <= time) {
      ASSERT_THAT(text, testing::HasSubstr("signal 9")) << "told at " << story.launcher;
    }
  }
}

}  // namespace
}  // namespace hora::tcp
