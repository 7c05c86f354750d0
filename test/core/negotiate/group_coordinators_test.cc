// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/group_coordinators.h"

#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;

constexpr TimePoint kNoon{std::chrono::hours(12)};

/// Three ranks, and group 1 of ranks 0 and 2.
class TwoGroups : public testing::Test {
 protected:
  TwoGroups() {
    groups_.add_group(kWorld, {0, 1, 2}, 8, false);
    groups_.add_group(1, {0, 2}, 8, false);
  }

  static Ballot ballot(int group, RankSet ranks, const std::string& name) {
    Ballot ballot;
    ballot.group = group;
    ballot.ranks = std::move(ranks);
    ballot.requests = {tensor(name)};
    return ballot;
  }

  GroupCoordinators groups_{3};
};

TEST_F(TwoGroups, EachBallotReachesItsGroupAndTheWorldIsDecidedLast) {
  EXPECT_FALSE(groups_.is_undecided());
  EXPECT_FALSE(groups_.add(ballot(kWorld, RankSet(0, 3), "w"), kNoon));
  EXPECT_TRUE(groups_.add(ballot(1, RankSet(0), "w"), kNoon));
  EXPECT_TRUE(groups_.add(ballot(1, RankSet(2), "w"), kNoon));
  EXPECT_TRUE(groups_.is_undecided());
  EXPECT_EQ(groups_.decide()->group, 1);
  EXPECT_EQ(groups_.decide()->group, kWorld);
  EXPECT_EQ(groups_.decide(), std::nullopt);
  EXPECT_FALSE(groups_.is_undecided());
  EXPECT_EQ(groups_.others_in(kWorld), RankSet(1, 3));
  EXPECT_EQ(groups_.others_in(1), RankSet(2));
}

TEST_F(TwoGroups, RefusesBallotsThatNoRankWouldSend) {
  EXPECT_THROW(groups_.add(ballot(2, RankSet(0), "w"), kNoon), Error) << "there is no such group";
  EXPECT_THROW(groups_.add(ballot(1, RankSet(1), "w"), kNoon), Error) << "it is no member";
  EXPECT_THROW(groups_.add(ballot(1, RankSet(0, 3), "w"), kNoon), Error) << "only the world's are merged";
  groups_.remove_group(1);
  EXPECT_FALSE(groups_.add(ballot(1, RankSet(0), "w"), kNoon)) << "it may be late";
}

TEST_F(TwoGroups, NamesTheRanksOfAProcessSetThatATensorWaitsIn) {
  groups_.add(ballot(1, RankSet(0), "in"), kNoon);
  groups_.add(ballot(kWorld, RankSet(1), "out"), kNoon + std::chrono::seconds(1));
  EXPECT_EQ(groups_.oldest(), kNoon);
  const auto waiting = groups_.waiting(TimePoint::max());
  ASSERT_EQ(waiting.size(), 2u);
  EXPECT_EQ(waiting[0].ranks, "ranks 0 and 2");
  EXPECT_THAT(waiting[0].missing, ElementsAre(2));
  EXPECT_EQ(waiting[1].ranks, "");
  EXPECT_EQ(groups_.waiting(kNoon).size(), 1u);
}

TEST_F(TwoGroups, TellsOfRanksThatLeaveUntilAllHaveLeft) {
  const auto leave = [](RankSet ranks) {
    Ballot ballot;
    ballot.ranks = std::move(ranks);
    ballot.leaving = true;
    return ballot;
  };
  groups_.add(ballot(kWorld, RankSet(0), "w"), kNoon);
  groups_.add(leave(RankSet(1)), kNoon);
  EXPECT_EQ(groups_.leaving().left, RankSet(1));
  EXPECT_EQ(groups_.leaving().since, kNoon);
  EXPECT_EQ(groups_.decide()->left, RankSet(1));
  EXPECT_THAT(groups_.take_missed(), ElementsAre(1));
  groups_.add(leave(RankSet(0)), kNoon);
  groups_.add(leave(RankSet(2)), kNoon);
  EXPECT_TRUE(groups_.leaving().left.empty());
  EXPECT_TRUE(groups_.decide()->end);
}

TEST_F(TwoGroups, TellsAndReportsPassBeside) {
  groups_.tell_world().fuse_up_to(17);
  EXPECT_EQ(groups_.decide()->fuse_up_to, 17u);
  Ballot report;
  report.ranks = RankSet(2);
  report.report = Report::delay;
  report.content = Bytes(3);
  EXPECT_FALSE(groups_.add(report, kNoon));
  const auto reports = groups_.take_reports();
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].rank, 2);
  EXPECT_EQ(reports[0].kind, Report::delay);
  EXPECT_EQ(reports[0].content, Bytes(3));
  EXPECT_TRUE(groups_.take_reports().empty());
  groups_.decide_all_again();
  EXPECT_TRUE(groups_.is_undecided());
}

TEST_F(TwoGroups, StepsAreThoseOfTheWorld) {
  const auto make_step = [this](int group, const std::vector<int>& ranks, std::uint64_t number) {
    for (const int rank : ranks) {
      Ballot asks = ballot(group, RankSet(rank), "w");
      asks.heard = number;
      if (number > 0) {
        asks.requests.clear();
        asks.repeats = {1};
      }
      groups_.add(asks, kNoon);
    }
    EXPECT_TRUE(groups_.decide());
  };
  for (std::uint64_t number = 0; number < 5; ++number) make_step(1, {0, 2}, number);
  for (std::uint64_t number = 0; number < 3; ++number) make_step(kWorld, {0, 1, 2}, number);
  EXPECT_EQ(groups_.take_steps().size(), 2u);
  EXPECT_TRUE(groups_.take_steps().empty());
}

}  // namespace
}  // namespace hora
