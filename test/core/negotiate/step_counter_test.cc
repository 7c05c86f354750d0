// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/step_counter.h"

#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

DecisionId learn_one(Schedule& schedule, const std::string& name) {
  Decision decision;
  decision.request = tensor(name);
  return schedule.learn(decision).id;
}

TEST(StepCounter, AStepEndsEachTimeTheFirstRepeatedDecisionIsMade) {
  Schedule schedule;
  const DecisionId a = learn_one(schedule, "a");
  const DecisionId b = learn_one(schedule, "b");
  StepCounter counter(2);
  for (std::uint64_t times = 2; times < 5; ++times) {
    counter.count(a, times, schedule);
    counter.count(b, times, schedule);
  }
  const auto steps = counter.take_ended();
  ASSERT_EQ(steps.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(steps[i].number, i + 1);
  EXPECT_TRUE(counter.take_ended().empty());
}

TEST(StepCounter, AnotherDecisionMarksStepsWhenTheFirstIsForgotten) {
  Schedule schedule(1);
  const DecisionId a = learn_one(schedule, "a");
  StepCounter counter(1);
  counter.count(a, 2, schedule);
  const DecisionId b = learn_one(schedule, "b");
  counter.count(b, 2, schedule);
  counter.count(b, 3, schedule);
  EXPECT_EQ(counter.take_ended().size(), 3u);
}

TEST(StepCounter, AnotherDecisionMarksStepsWhenTheFirstWasRepeatedBeforeTheTraining) {
  Schedule schedule;
  const DecisionId before = learn_one(schedule, "state");
  StepCounter counter(1);
  counter.count(before, 2, schedule);
  const DecisionId a = learn_one(schedule, "a");
  for (std::uint64_t times = 2; times <= 100; ++times) counter.count(a, times, schedule);
  const auto steps = counter.take_ended();
  ASSERT_GT(steps.size(), 50U);
  EXPECT_EQ(steps.back().number, 99U);
}

TEST(StepCounter, TellsForEachStepTheLongestTimeThatAMemberWasBehind) {
  Schedule schedule;
  const DecisionId a = learn_one(schedule, "a");
  StepCounter counter(3);
  counter.note_behind(RankSet(1, 3), milliseconds(5));
  counter.note_behind(RankSet(2), milliseconds(3));
  counter.note_behind(RankSet(0), -milliseconds(1));
  counter.note_behind({milliseconds(0), milliseconds(7), milliseconds(2)});
  counter.count(a, 2, schedule);
  counter.count(a, 3, schedule);
  const auto steps = counter.take_ended();
  EXPECT_THAT(steps[0].behind, ElementsAre(milliseconds(0), milliseconds(7), milliseconds(5)));
  EXPECT_THAT(steps[1].behind, ElementsAre(milliseconds(0), milliseconds(0), milliseconds(0)));
}

}  // namespace
}  // namespace hora
