// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/outgoing_ballots.h"

#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

constexpr TimePoint kSent{std::chrono::hours(1)};

/// Ranks that asked some time before `kSent`.
Arrivals asked_before(RankSet ranks, Clock::duration age, std::uint64_t heard = 9) {
  const std::vector<Late> none;
  return Arrivals({ranks, heard, kSent - age, kSent, none});
}

TEST(OutgoingBallots, RequestsOfTheSameRanksAndAgeGoUpInOne) {
  OutgoingBallots out;
  const auto request = std::make_shared<Request>(tensor("w"));
  const auto both = asked_before(RankSet(0, 2), milliseconds(3));
  out.add({RankSet(0, 2), 0, request}, both, kSent);
  out.add({RankSet(0, 2), 7, nullptr}, both, kSent);
  out.add(std::vector<DecisionId>{5, 6}, both, kSent);
  out.add({RankSet(0, 2), 8, nullptr}, asked_before(RankSet(0, 2), milliseconds(60)), kSent);
  out.add({RankSet(1), 9, nullptr}, both, kSent);
  EXPECT_TRUE(out.has_unfinished());
  EXPECT_TRUE(out.take().empty());
  out.finish(9);
  EXPECT_FALSE(out.has_unfinished());
  const auto ballots = out.take();
  ASSERT_EQ(ballots.size(), 3u);
  EXPECT_EQ(ballots[0].ranks, RankSet(0, 2));
  EXPECT_THAT(ballots[0].repeats, ElementsAre(5, 6, 7));
  EXPECT_THAT(ballots[0].requests, ElementsAre(tensor("w")));
  EXPECT_EQ(ballots[0].age, milliseconds(3));
  EXPECT_THAT(ballots[1].repeats, ElementsAre(8));
  EXPECT_EQ(ballots[1].age, milliseconds(60));
  EXPECT_EQ(ballots[2].ranks, RankSet(1));
  EXPECT_TRUE(out.take().empty());
}

TEST(OutgoingBallots, AllSayTheFewestVerdictsThatAnyRankHasHeard) {
  for (const std::uint64_t most : {2, 9}) {
    OutgoingBallots out;
    out.add({RankSet(0), 1, nullptr}, asked_before(RankSet(0), {}, 4), kSent);
    out.add({RankSet(1), 2, nullptr}, asked_before(RankSet(1), {}, 6), kSent);
    out.finish(most);
    for (const auto& ballot : out.take()) EXPECT_EQ(ballot.heard, std::min<std::uint64_t>(most, 4));
  }
}

TEST(OutgoingBallots, ABallotNamesTheLateOnesOfItsOwnRanks) {
  OutgoingBallots out;
  Arrivals arrivals = asked_before(RankSet(0, 4), {});
  arrivals.late = {{RankSet(2, 4), milliseconds(5)}, {RankSet(0), milliseconds(6)}};
  out.add({RankSet(1, 3), 1, nullptr}, arrivals, kSent);
  out.finish(9);
  EXPECT_EQ(out.take().front().late, (std::vector<Late>{{RankSet(2), milliseconds(5)}}));
}

TEST(OutgoingBallots, FinishedOnesGoUpInOrderUnlessAllIsDropped) {
  OutgoingBallots out;
  for (const int group : {3, 2}) {
    Ballot ballot;
    ballot.group = group;
    out.pass(ballot);
  }
  const auto ballots = out.take();
  ASSERT_EQ(ballots.size(), 2u);
  EXPECT_EQ(ballots[0].group, 3);
  out.pass({});
  out.add({RankSet(0), 1, nullptr}, asked_before(RankSet(0), {}), kSent);
  out.clear();
  EXPECT_FALSE(out.has_unfinished());
  EXPECT_TRUE(out.take().empty());
}

}  // namespace
}  // namespace hora
