// SPDX-License-Identifier: Apache-2.0
// Single events. The simulation, test/simulation/elastic, has many members and many orders of events.
#include "core/elastic/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::elastic {
namespace {

using Does = MemberAction::Kind;
using Phase = Member::Phase;

std::vector<Does> kinds(const Member::Actions& actions) {
  std::vector<Does> kinds;
  for (const auto& each : actions) kinds.push_back(each.kind);
  return kinds;
}

const GenerationRecord kFirst{1, {{1, 0, 0, true}, {2, 0, 1, false}}, 0, false};

/// A member in generation 1, with another one.
class RunningMember : public testing::Test {
 protected:
  RunningMember() {
    EXPECT_EQ(kinds(member_.hear_record(kFirst)), std::vector{Does::form});
    EXPECT_EQ(kinds(member_.formed()), std::vector{Does::tell_formed});
    EXPECT_EQ(kinds(member_.hear_go(1)), std::vector{Does::start});
    EXPECT_EQ(member_.phase(), Phase::running);
  }
  Member member_{1};
};

TEST_F(RunningMember, StopsOnceWhateverTellsItTo) {
  EXPECT_EQ(kinds(member_.lose({2})), (std::vector{Does::suspect, Does::stop}));
  EXPECT_TRUE(member_.hear_stop(1).empty());
  EXPECT_TRUE(member_.lose({2}).empty());
  EXPECT_TRUE(member_.change_is_due().empty());
  EXPECT_EQ(member_.phase(), Phase::stopping);
}

TEST_F(RunningMember, ReportsWhenItsEngineHasStoppedWhomItHasLost) {
  EXPECT_TRUE(member_.engine_stopped({}).empty()) << "it was not told to";
  EXPECT_EQ(kinds(member_.hear_stop(1)), std::vector{Does::stop});
  EXPECT_EQ(kinds(member_.lose({2})), std::vector{Does::suspect});
  const auto actions = member_.engine_stopped({.voted = 5, .committed = 4, .has_state = true});
  ASSERT_EQ(kinds(actions), std::vector{Does::report});
  EXPECT_EQ(actions.front().report, (Report{1, 1, 5, 4, true, false, true, {2}}));
  EXPECT_TRUE(member_.engine_stopped({}).empty()) << "once for each generation";
}

TEST_F(RunningMember, GoesOnWithTheRecordOfTheNextGenerationOnlyAfterItsReport) {
  GenerationRecord next{2, {{1, 0, 0, true}}, 5, false};
  EXPECT_THROW((void)member_.hear_record(next), Error);
  (void)member_.hear_stop(1);
  (void)member_.engine_stopped({});
  EXPECT_EQ(kinds(member_.hear_record(next)), std::vector{Does::form});
  EXPECT_EQ(member_.record(), next);
}

TEST_F(RunningMember, IgnoresMessagesOfOtherGenerationsAndStrangers) {
  EXPECT_TRUE(member_.hear_stop(0).empty());
  EXPECT_TRUE(member_.hear_go(1).empty()) << "it has started";
  EXPECT_TRUE(member_.lose({7}).empty()) << "it is no member";
}

TEST_F(RunningMember, EndsOnceWhenTheNextGenerationIsWithoutIt) {
  EXPECT_EQ(kinds(member_.hear_out("too many")), std::vector{Does::end});
  EXPECT_TRUE(member_.hear_out("too many").empty());
  EXPECT_TRUE(member_.lose({2}).empty());
}

TEST(Member, DoesNotStartAfterAStopWhileItForms) {
  Member member(1);
  (void)member.hear_record(kFirst);
  EXPECT_EQ(kinds(member.hear_stop(1)), std::vector{Does::stop});
  EXPECT_TRUE(member.hear_go(1).empty());
  EXPECT_TRUE(member.formed().empty());
}

}  // namespace
}  // namespace hora::elastic
