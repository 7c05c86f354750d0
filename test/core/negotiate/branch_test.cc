// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/branch.h"

#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::ElementsAre;

/// Rank 4's, which ranks 5 to 9 are below.
class Branches : public testing::Test {
 protected:
  static Ballot from(RankSet ranks, std::vector<Request> requests, std::vector<DecisionId> repeats = {}) {
    Ballot ballot;
    ballot.ranks = std::move(ranks);
    ballot.requests = std::move(requests);
    ballot.repeats = std::move(repeats);
    return ballot;
  }

  void add(Ballot ballot) { branch_.add(std::move(ballot), now_); }
  std::vector<Ballot> take() { return branch_.take(now_); }

  /// All have agreed on these, which get the numbers 1, 2 and so on.
  void decide(const std::vector<std::string>& names) {
    Verdict verdict;
    for (const auto& name : names) {
      static_cast<void>(voter_.ask({tensor(name)}));
      Verdict::Item item;
      item.decision.request = tensor(name);
      verdict.items.push_back(item);
    }
    voter_.apply(verdict);
    branch_.hear(verdict);
  }

  TimePoint now_{std::chrono::hours(1)};
  Voter voter_{kWorld};
  Branch branch_{RankSet(4, 10), voter_};
};

TEST_F(Branches, WhatAllHaveAskedForGoesUpOnce) {
  add(from(RankSet(4), {tensor("a"), tensor("b")}));
  add(from(RankSet(5, 7), {tensor("b"), tensor("a")}));
  EXPECT_TRUE(take().empty());
  add(from(RankSet(7, 10), {tensor("a")}));
  const auto ballots = take();
  ASSERT_EQ(ballots.size(), 1u);
  EXPECT_EQ(ballots.front().ranks, RankSet(4, 10));
  EXPECT_THAT(ballots.front().requests, ElementsAre(tensor("a")));
  add(from(RankSet(7, 10), {tensor("b")}));
  EXPECT_THAT(take().front().requests, ElementsAre(tensor("b")));
  EXPECT_EQ(branch_.next(), TimePoint::max());
}

TEST_F(Branches, AStepThatIsRepeatedGoesUpAsNumbers) {
  decide({"a", "b", "c"});
  for (int rank = 4; rank < 10; ++rank) {
    EXPECT_TRUE(take().empty());
    add(from(RankSet(rank), {}, {1, 2, 3}));
  }
  const auto ballots = take();
  ASSERT_EQ(ballots.size(), 1u);
  EXPECT_THAT(ballots.front().repeats, ElementsAre(1, 2, 3));
  EXPECT_EQ(ballots.front().ranks, RankSet(4, 10));
}

TEST_F(Branches, RepeatsInOtherPortionsAreTheSame) {
  decide({"a", "b", "c"});
  add(from(RankSet(4), {}, {1, 2, 3}));
  add(from(RankSet(5, 9), {}, {2, 3}));
  add(from(RankSet(5, 10), {}, {1}));
  EXPECT_THAT(take().front().repeats, ElementsAre(1));
  add(from(RankSet(9), {}, {2, 3}));
  EXPECT_THAT(take().front().repeats, ElementsAre(2, 3));
  EXPECT_TRUE(take().empty());
}

TEST_F(Branches, UnequalRequestsGoUpWithTheirRanksWithoutWaiting) {
  decide({"a", "b"});
  add(from(RankSet(4, 8), {}, {1, 2}));
  add(from(RankSet(8, 10), {tensor("a", 5)}, {2}));
  const auto ballots = take();
  ASSERT_EQ(ballots.size(), 3u);
  int requests = 0;
  for (const auto& ballot : ballots) {
    if (ballot.ranks == RankSet(8, 10)) requests += static_cast<int>(ballot.requests.size());
  }
  EXPECT_EQ(requests, 1);
}

TEST_F(Branches, WhatSomeHaveNotAskedForGoesUpAfterAMomentAndThenAsItComes) {
  decide({"a"});
  add(from(RankSet(4, 7), {}, {1}));
  EXPECT_EQ(branch_.next(), now_ + Branch::kMostWait);
  now_ += Branch::kMostWait;
  auto ballots = take();
  ASSERT_EQ(ballots.size(), 1u);
  EXPECT_EQ(ballots.front().ranks, RankSet(4, 7));
  EXPECT_EQ(ballots.front().age, Branch::kMostWait);
  EXPECT_EQ(branch_.next(), TimePoint::max());
  now_ += milliseconds(5);
  add(from(RankSet(8), {}, {1}));
  ballots = take();
  ASSERT_EQ(ballots.size(), 1u);
  EXPECT_EQ(ballots.front().ranks, RankSet(8));
  EXPECT_THAT(ballots.front().late, ElementsAre(Late{RankSet(8), milliseconds(55)}));
}

TEST_F(Branches, WhatOnlySomeRanksAskForGoesUpAtOnce) {
  Request request = tensor("set");
  request.operation = Operation::add_process_set;
  request.set_name = "set";
  request.ranks = {4, 9};
  add(from(RankSet(9), {request}));
  EXPECT_THAT(take().front().requests, ElementsAre(request));
  add(from(RankSet(4), {request}));
  EXPECT_EQ(take().front().ranks, RankSet(4));
}

TEST_F(Branches, WhoIsLateTravelsAlong) {
  Ballot early = from(RankSet(5, 8), {tensor("a")});
  early.age = milliseconds(12);
  early.late = {{RankSet(6), milliseconds(11)}};
  add(from(RankSet(4), {tensor("a")}));
  add(early);  // began before
  now_ += milliseconds(20);
  add(from(RankSet(8, 10), {tensor("a")}));
  const auto ballots = take();
  ASSERT_EQ(ballots.size(), 1u);
  EXPECT_EQ(ballots.front().age, milliseconds(32));
  EXPECT_THAT(ballots.front().late, testing::UnorderedElementsAre(Late{RankSet(4), milliseconds(12)},
                                                                  Late{RankSet(6), milliseconds(11)},
                                                                  Late{RankSet(8, 10), milliseconds(32)}));
}

TEST_F(Branches, NobodyWaitsForWhoHasLeftOrJoined) {
  add(from(RankSet(5), {tensor("a")}));
  Ballot leaving;
  leaving.ranks = RankSet(5);
  leaving.leaving = true;
  add(leaving);
  auto ballots = take();
  ASSERT_EQ(ballots.size(), 2u);
  EXPECT_THAT(ballots[0].requests, ElementsAre(tensor("a"))) << "first what it has asked for";
  EXPECT_TRUE(ballots[1].leaving);
  add(from(RankSet(6), {tensor("b")}));
  EXPECT_EQ(take().size(), 1u);
}

TEST_F(Branches, WhenAJoinIsOverAllWaitForEachOtherAgain) {
  Request join;
  join.operation = Operation::join;
  join.name = kJoinName;
  add(from(RankSet(5), {join}));
  EXPECT_EQ(take().size(), 1u);
  add(from(RankSet(6), {tensor("a")}));
  EXPECT_EQ(take().size(), 1u);
  Verdict verdict;
  verdict.items.emplace_back();
  verdict.items.back().decision.request = join;
  branch_.hear(verdict);
  add(from(RankSet(6), {tensor("a")}));
  EXPECT_TRUE(take().empty());
}

TEST_F(Branches, WhatFailsWhileItWaitsIsNotAskedForAgain) {
  add(from(RankSet(5), {tensor("a")}));
  Verdict verdict;
  verdict.items.emplace_back();
  verdict.items.back().decision = {{Code::aborted, "'a': rank 1 has left"}, tensor("a"), {}, true, 1, {}};
  branch_.hear(verdict);
  add(from(RankSet(4, 10), {tensor("a")}));
  const auto ballots = take();
  ASSERT_EQ(ballots.size(), 1u);
  EXPECT_EQ(ballots.front().ranks, RankSet(4, 10));
}

TEST_F(Branches, OtherGroupsAndReportsPassAsTheyAre) {
  Ballot group = from(RankSet(7), {tensor("a")});
  group.group = 3;
  Ballot report;
  report.ranks = RankSet(8);
  report.report = Report::trace;
  report.content = Bytes(3);
  add(group);
  add(report);
  EXPECT_THAT(take(), ElementsAre(group, report));
}

TEST_F(Branches, WhatGoesUpHasHeardNoMoreThanWhatWaits) {
  Ballot old = from(RankSet(5), {tensor("a")});
  old.heard = 3;
  add(old);
  Ballot all = from(RankSet(4, 10), {tensor("b")});
  all.heard = 5;
  add(all);
  EXPECT_EQ(take().front().heard, 3u);
}

TEST_F(Branches, OfBallotsThatGoUpTogetherNoneHasHeardMoreThanAnother) {
  decide({"a", "b"});
  const auto hear = [&](Ballot ballot, std::uint64_t heard) {
    ballot.heard = heard;
    add(std::move(ballot));
  };
  hear(from(RankSet(4, 9), {tensor("c")}), 3);
  hear(from(RankSet(9), {}, {7}), 1);  // by a number that is forgotten here, of which it has not heard yet
  hear(from(RankSet(9), {tensor("c")}), 3);
  const auto ballots = take();
  ASSERT_EQ(ballots.size(), 2u);
  for (const auto& ballot : ballots) EXPECT_EQ(ballot.heard, 1u);
}

TEST_F(Branches, WhatWasAskedForBeforeALockIsForgotten) {
  decide({"a"});
  add(from(RankSet(5), {}, {1}));
  Verdict verdict;
  verdict.items.push_back({1, {}});
  verdict.lock = {1};
  voter_.apply(verdict);
  branch_.hear(verdict);
  add(from(RankSet(6), {}, {1}));  // had not heard of it
  EXPECT_EQ(branch_.next(), TimePoint::max());
  Ballot again = from(RankSet(4, 10), {}, {1});
  again.heard = 2;
  add(again);
  EXPECT_EQ(take().size(), 1u);
}

TEST_F(Branches, RefusesWhatNoRankWouldAsk) {
  add(from(RankSet(5), {tensor("a")}));
  EXPECT_THROW(add(from(RankSet(5), {tensor("a")})), Error);
}

}  // namespace
}  // namespace hora
