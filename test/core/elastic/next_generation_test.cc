// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/next_generation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::elastic {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The end of a generation with six members, two on each of three hosts, that have all reported.
EndOfGeneration end_of_six() {
  EndOfGeneration end;
  end.record.generation = 4;
  end.record.committed = 7;
  end.least = 2;
  end.most = 6;
  for (MemberId id = 0; id < 6; ++id) {
    end.record.members.push_back({id, static_cast<int>(id) / 2, static_cast<int>(id) % 2, true});
    end.reports.push_back({.member = id, .generation = 4, .voted = 9, .committed = 9, .has_state = true});
  }
  return end;
}

std::vector<MemberId> members_of(const GenerationRecord& record) {
  std::vector<MemberId> ids;
  for (const auto& each : record.members) ids.push_back(each.id);
  return ids;
}

TEST(NextGeneration, IsOfThoseThatLiveAndBeginsAfterTheStepsThatCount) {
  EndOfGeneration end = end_of_six();
  end.reports.erase(end.reports.begin() + 2);
  const NextGeneration next = choose_next(end);
  EXPECT_THAT(members_of(next.record), ElementsAre(0, 1, 3, 4, 5));
  EXPECT_EQ(next.record.generation, 5u);
  EXPECT_EQ(next.record.committed, 9u);
  EXPECT_FALSE(next.record.paused);
  EXPECT_THAT(next.out, IsEmpty());
}

TEST(NextGeneration, TakesCandidatesUpToTheMostMembers) {
  EndOfGeneration end = end_of_six();
  end.reports.resize(4);
  end.candidates = {{10, 2, 0}, {11, 2, 1}, {12, 2, 2}};
  EXPECT_THAT(members_of(choose_next(end).record), ElementsAre(0, 1, 2, 3, 10, 11));
  end.lost_any = true;
  EXPECT_THAT(members_of(choose_next(end).record), ElementsAre(0, 1, 2, 3));
  end.least = 5;
  EXPECT_THAT(members_of(choose_next(end).record), ElementsAre(0, 1, 2, 3, 10, 11))
      << "there are too few without them";
}

TEST(NextGeneration, HasHotSparesBeyondTheMembersThatAreToTrain) {
  EndOfGeneration end = end_of_six();
  end.hot_spares = 2;
  EXPECT_EQ(choose_next(end).record.hot_spares, 2);
  end.reports.resize(5);
  EXPECT_EQ(choose_next(end).record.hot_spares, 1);
  end.reports.resize(3);
  EXPECT_EQ(choose_next(end).record.hot_spares, 0) << "all have to train";
}

TEST(NextGeneration, TakesNobodyAndDoesNotPauseWhereAMemberIsBetweenTwoSteps) {
  EndOfGeneration end = end_of_six();
  end.reports.resize(3);
  end.candidates = {{10, 2, 0}};
  end.least = 5;
  end.reports[1].takes_in = false;
  const NextGeneration next = choose_next(end);
  EXPECT_THAT(members_of(next.record), ElementsAre(0, 1, 2));
  EXPECT_FALSE(next.record.paused);
  end.reports[1].takes_in = true;
  EXPECT_THAT(members_of(choose_next(end).record), ElementsAre(0, 1, 2, 10));
  EXPECT_TRUE(choose_next(end).record.paused);
}

TEST(NextGeneration, LosesTheStateWithTheLastThatHasIt) {
  EndOfGeneration end = end_of_six();
  for (auto& report : end.reports) report.has_state = false;
  EXPECT_TRUE(choose_next(end).state_is_lost);
  end.record.committed = 0;
  EXPECT_TRUE(choose_next(end).state_is_lost) << "they have heard of steps that were made since";
  for (auto& report : end.reports) report.voted = report.committed = 0;
  const NextGeneration anew = choose_next(end);
  EXPECT_FALSE(anew.state_is_lost) << "no step was made";
  EXPECT_EQ(anew.record.committed, 0u);
  EXPECT_TRUE(anew.record.members.front().has_state);
  end.candidates = {{10, 0, 0}};
  end.reports.erase(end.reports.begin());  // its process is replaced before the first step
  const auto members = choose_next(end).record.members;
  EXPECT_EQ(members.front().id, 10U);
  EXPECT_FALSE(members.front().has_state) << "it has not heard of the parameters";
  EXPECT_TRUE(members.at(1).has_state);
  end.reports.clear();
  EXPECT_FALSE(choose_next(end).state_is_lost);
  end.made_steps = true;
  EXPECT_TRUE(choose_next(end).state_is_lost) << "nobody knows how many steps were made";
}

TEST(CutOff, TakesTheHostThatMostOthersCannotReach) {
  EndOfGeneration end = end_of_six();
  end.reports[0].unreachable = {2};
  end.reports[3].unreachable = {5};
  EXPECT_THAT(cut_off(end.record, end.reports), ElementsAre(2, 3));
  const NextGeneration next = choose_next(end);
  EXPECT_THAT(members_of(next.record), ElementsAre(0, 1, 4, 5));
  EXPECT_EQ(next.out.size(), 2u);
}

TEST(CutOff, TakesTheLaterHostOfTwoAndTheLaterMemberOfAHost) {
  EndOfGeneration end = end_of_six();
  end.reports[0].unreachable = {2};
  EXPECT_THAT(cut_off(end.record, end.reports), ElementsAre(2, 3));
  end.reports[0].unreachable = {1};
  EXPECT_THAT(cut_off(end.record, end.reports), ElementsAre(1));
  end.reports[0].unreachable = {99};
  EXPECT_THAT(cut_off(end.record, end.reports), IsEmpty()) << "it does not live";
}

}  // namespace
}  // namespace hora::elastic
