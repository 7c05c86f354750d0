// SPDX-License-Identifier: Apache-2.0
// Its decisions in single cases. The simulation, test/simulation/elastic, has many orders of events.
#include "core/elastic/leader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::elastic {
namespace {

using Order = LeaderAction::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;

std::vector<std::pair<Order, MemberId>> told(const Leader::Actions& actions) {
  std::vector<std::pair<Order, MemberId>> told;
  for (const auto& each : actions) told.emplace_back(each.kind, each.to);
  return told;
}

std::vector<MemberId> ids(const GenerationRecord& record) {
  std::vector<MemberId> ids;
  for (const auto& each : record.members) ids.push_back(each.id);
  return ids;
}

/// A job of four processes, two on each of two hosts, which run in generation 1.
class LeaderOfFour : public testing::Test {
 protected:
  explicit LeaderOfFour(int least = 2)
      : leader_({.min_members = least, .max_members = 4, .first_members = 4}) {
    for (int i = 0; i < 4; ++i) (void)leader_.join({static_cast<MemberId>(i + 1), i / 2, i % 2}, now_);
    form();
  }
  void form() {
    for (const MemberId id : ids(leader_.record()))
      (void)leader_.formed(id, leader_.record().generation, now_);
    EXPECT_EQ(leader_.phase(), Leader::Phase::running);
  }
  Report report(MemberId id, std::uint64_t voted = 3, std::uint64_t committed = 3) {
    return {.member = id,
            .generation = leader_.record().generation,
            .voted = voted,
            .committed = committed,
            .has_state = true};
  }
  Leader::Actions all_report(std::vector<MemberId> members) {
    Leader::Actions last;
    for (const MemberId id : members) last = leader_.report(report(id), now_);
    return last;
  }
  TimePoint now_ = TimePoint() + seconds(100);
  Leader leader_;
};

TEST_F(LeaderOfFour, MakesTheNextGenerationOfThoseThatHaveReportedWhenOneDies) {
  EXPECT_THAT(told(leader_.die(1, now_)),
              ElementsAre(std::pair(Order::stop, 2), std::pair(Order::stop, 3), std::pair(Order::stop, 4)));
  (void)leader_.report(report(2, 4, 3), now_);
  (void)leader_.report(report(3, 4, 4), now_);
  EXPECT_EQ(leader_.phase(), Leader::Phase::stopping);
  EXPECT_THAT(
      told(leader_.report(report(4, 4, 3), now_)),
      ElementsAre(std::pair(Order::record, 2), std::pair(Order::record, 3), std::pair(Order::record, 4)));
  EXPECT_EQ(leader_.record().generation, 2u);
  EXPECT_EQ(leader_.record().committed, 4u);
  EXPECT_THAT(ids(leader_.record()), ElementsAre(2, 3, 4));
}

TEST_F(LeaderOfFour, WaitsForTheEndOfAProcessThatItHasKilled) {
  leader_.stop(2, now_);
  EXPECT_EQ(leader_.next(), now_ + milliseconds(200));
  now_ += milliseconds(200);
  const auto actions = leader_.tick(now_);
  EXPECT_THAT(told(actions), testing::Contains(std::pair(Order::kill, 2)));
  (void)all_report({1, 3, 4, 2});
  EXPECT_EQ(leader_.phase(), Leader::Phase::stopping) << "it may still write into the memory of others";
  (void)leader_.die(2, now_);
  EXPECT_THAT(ids(leader_.record()), ElementsAre(1, 3, 4));
}

TEST_F(LeaderOfFour, DoesNotKillAProcessThatGoesOnInTime) {
  leader_.stop(2, now_);
  leader_.resume(2, now_ + milliseconds(150));
  EXPECT_TRUE(leader_.tick(now_ + milliseconds(200)).empty());
}

TEST_F(LeaderOfFour, LeavesOutOneOfTwoHostsThatCannotReachEachOther) {
  (void)leader_.suspect(3, 1, now_);
  for (const MemberId id : {1, 2, 3, 4}) {
    Report one = report(id);
    one.unreachable = id < 3 ? std::vector<MemberId>{3, 4} : std::vector<MemberId>{1, 2};
    (void)leader_.report(one, now_);
  }
  EXPECT_THAT(ids(leader_.record()), ElementsAre(1, 2)) << "the later host goes";
}

TEST_F(LeaderOfFour, KeepsMembersThatCouldNotBeReachedWhileAnotherOneDied) {
  Report one = report(1);
  one.unreachable = {2};  // it had stopped earlier
  (void)leader_.die(4, now_);
  (void)leader_.report(one, now_);
  (void)all_report({2, 3});
  EXPECT_THAT(ids(leader_.record()), ElementsAre(1, 2, 3));
}

TEST_F(LeaderOfFour, LetsMembersComeAndGoWithAStepThatCounts) {
  EXPECT_THAT(told(leader_.let_go(1, now_)), ElementsAre(std::pair(Order::plan_change, 1)));
  EXPECT_TRUE(leader_.join({9, 0, 0}, now_).empty()) << "the change has been announced";
  const auto actions = all_report({1, 2, 3, 4});
  EXPECT_THAT(told(actions), testing::Contains(std::pair(Order::out, 1)));
  EXPECT_THAT(ids(leader_.record()), ElementsAre(2, 9, 3, 4)) << "it has no state yet";
  EXPECT_TRUE(leader_.record().members.front().has_state);
}

TEST_F(LeaderOfFour, KeepsWhoIsToGoWhileNobodyElseHasTheState) {
  for (const MemberId id : {2, 3, 4}) (void)leader_.die(id, now_);
  (void)leader_.let_go(1, now_);
  (void)all_report({1});
  EXPECT_THAT(ids(leader_.record()), ElementsAre(1));
  EXPECT_TRUE(leader_.record().paused);
}

TEST_F(LeaderOfFour, PausesWithTheNextStepWhereTheLastOnesAreBetweenTwo) {
  for (const MemberId id : {1, 2, 3}) (void)leader_.die(id, now_);
  Report busy = report(4);
  busy.takes_in = false;
  (void)leader_.report(busy, now_);
  EXPECT_FALSE(leader_.record().paused);
  EXPECT_THAT(told(leader_.formed(4, leader_.record().generation, now_)),
              ElementsAre(std::pair(Order::go, 4), std::pair(Order::plan_change, 4)));
  (void)all_report({4});
  EXPECT_TRUE(leader_.record().paused);
}

TEST_F(LeaderOfFour, PausesWithTooFewAndGoesOnWhenOthersHaveCome) {
  for (const MemberId id : {1, 2, 3}) (void)leader_.die(id, now_);
  (void)all_report({4});
  EXPECT_TRUE(leader_.record().paused);
  form();
  EXPECT_THAT(told(leader_.join({9, 0, 0}, now_)), ElementsAre(std::pair(Order::stop, 4)));
  (void)all_report({4});
  EXPECT_THAT(ids(leader_.record()), ElementsAre(4, 9)) << "hosts that stay come first";
  EXPECT_FALSE(leader_.record().paused);
}

TEST_F(LeaderOfFour, EndsAJobThatHasPausedForTooLong) {
  for (const MemberId id : {1, 2, 3}) (void)leader_.die(id, now_);
  (void)all_report({4});
  form();
  const TimePoint until = now_ + seconds(600);
  leader_.hear_from(4, until);
  EXPECT_EQ(leader_.next(), until);
  const auto actions = leader_.tick(until);
  ASSERT_THAT(told(actions), ElementsAre(std::pair(Order::end_job, 0)));
  EXPECT_EQ(actions.front().why, "it has had fewer than 2 ranks for 600 s");
}

TEST_F(LeaderOfFour, EndsTheJobWhenTheStateIsLost) {
  (void)leader_.die(1, now_);
  (void)all_report({2, 3, 4});
  form();
  Leader::Actions last;
  for (const MemberId id : {2, 3, 4}) last = leader_.die(id, now_);
  EXPECT_THAT(told(last), ElementsAre(std::pair(Order::end_job, 0)));
  EXPECT_EQ(leader_.phase(), Leader::Phase::over);
  EXPECT_EQ(leader_.next(), TimePoint::max());
}

TEST(Leader, BeginsAnewIfAllDieBeforeTheyHaveFormedTheFirstGeneration) {
  const TimePoint now = TimePoint() + seconds(100);
  Leader leader({.min_members = 1, .max_members = 2, .first_members = 2});
  for (const MemberId id : {1, 2}) (void)leader.join({id, 0, static_cast<int>(id)}, now);
  for (const MemberId id : {1, 2}) (void)leader.die(id, now);
  EXPECT_EQ(leader.phase(), Leader::Phase::first);
  for (const MemberId id : {3, 4}) (void)leader.join({id, 0, static_cast<int>(id)}, now);
  EXPECT_EQ(leader.phase(), Leader::Phase::forming);
  EXPECT_TRUE(leader.record().members.front().has_state);
}

TEST_F(LeaderOfFour, EndsTheJobIfAllDieBecauseNobodyKnowsWhichStepsTheyMade) {
  Leader::Actions last;
  for (const MemberId id : {1, 2, 3, 4}) last = leader_.die(id, now_);
  EXPECT_THAT(told(last), ElementsAre(std::pair(Order::end_job, 0)));
}

TEST_F(LeaderOfFour, SendsTheRestAwayWhenTheTrainingHasEnded) {
  (void)leader_.join({9, 0, 7}, now_);
  Leader::Actions last;
  for (const MemberId id : {1, 2, 3, 4}) last = leader_.finish(id, now_);
  EXPECT_THAT(told(last), ElementsAre(std::pair(Order::out, 9)));
}

TEST_F(LeaderOfFour, FormsAnewAtOnceWithoutAMemberThatEndsWell) {
  (void)leader_.die(4, now_);
  (void)all_report({1, 2, 3});
  ASSERT_EQ(leader_.phase(), Leader::Phase::forming);
  (void)leader_.finish(1, now_);
  (void)all_report({2, 3});
  EXPECT_THAT(ids(leader_.record()), ElementsAre(2, 3));
}

TEST(Leader, LetsHotSparesTrainWhereTheJobIsToBeLarger) {
  Leader leader({.min_members = 1, .max_members = 3, .hot_spares = 1, .first_members = 3});
  const TimePoint now = TimePoint() + seconds(100);
  for (const MemberId id : {1, 2, 3}) (void)leader.join({id, 0, static_cast<int>(id)}, now);
  for (const MemberId id : {1, 2, 3}) (void)leader.formed(id, 1, now);
  EXPECT_EQ(leader.record().hot_spares, 1);
  EXPECT_THAT(told(leader.resize(3, now)), testing::IsEmpty());
  EXPECT_THAT(told(leader.resize(4, now)), ElementsAre(std::pair(Order::plan_change, MemberId{1})));
}

TEST_F(LeaderOfFour, KillsAMemberThatDoesNotStop) {
  (void)leader_.die(1, now_);
  (void)all_report({2, 3});
  now_ += seconds(5);
  leader_.hear_from(4, now_);
  EXPECT_THAT(told(leader_.tick(now_)), testing::Contains(std::pair(Order::kill, 4)));
}

}  // namespace
}  // namespace hora::elastic
