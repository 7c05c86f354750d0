// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/steady_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

void repeat(SteadyState& steady_state, const std::vector<DecisionId>& ids) {
  for (const auto id : ids) steady_state.repeat(id);
}

TEST(SteadyState, IsSteadyWhenTheFourthEqualStepBegins) {
  SteadyState steady_state;
  repeat(steady_state, {1, 2, 3, 1, 2, 3, 1, 2, 3});
  EXPECT_FALSE(steady_state.is_steady());
  steady_state.repeat(1);
  ASSERT_TRUE(steady_state.is_steady());
  EXPECT_THAT(steady_state.order(), ElementsAre(1, 2, 3));
  EXPECT_EQ(steady_state.made(), 1u);
}

TEST(SteadyState, TheOrderWithinAStepMayVary) {
  SteadyState steady_state;
  repeat(steady_state, {1, 2, 3, 1, 3, 2, 1, 2, 3, 1, 3});
  ASSERT_TRUE(steady_state.is_steady());
  EXPECT_THAT(steady_state.order(), ElementsAre(1, 3, 2));
  EXPECT_EQ(steady_state.made(), 2u);
}

TEST(SteadyState, WhatIsDisturbedBeginsAnew) {
  SteadyState steady_state;
  repeat(steady_state, {1, 2, 1, 2, 1, 2, 1});
  ASSERT_TRUE(steady_state.is_steady());
  steady_state.disturb();
  EXPECT_FALSE(steady_state.is_steady());
  repeat(steady_state, {1, 2, 1, 2, 1, 2});
  EXPECT_FALSE(steady_state.is_steady());
  steady_state.repeat(1);
  EXPECT_TRUE(steady_state.is_steady());
}

TEST(SteadyState, WhatIsNotOfTheStepEndsIt) {
  SteadyState steady_state;
  repeat(steady_state, {1, 2, 1, 2, 1, 2, 1});
  ASSERT_TRUE(steady_state.is_steady());
  steady_state.repeat(9);
  EXPECT_FALSE(steady_state.is_steady());
}

TEST(SteadyState, OfStepsThatDecideSomethingTwice) {
  SteadyState steady_state;  // a barrier before and after each tensor
  for (int step = 0; step < 8 && !steady_state.is_steady(); ++step) repeat(steady_state, {7, 1, 7});
  ASSERT_TRUE(steady_state.is_steady());
  EXPECT_THAT(steady_state.order(), UnorderedElementsAre(7, 7, 1));
}

TEST(SteadyState, OfStepsThatBeginAfterSomethingElse) {
  SteadyState steady_state;
  repeat(steady_state, {50, 51, 52});  // once, before the training
  for (int step = 0; step < 10 && !steady_state.is_steady(); ++step) repeat(steady_state, {1, 2, 3});
  ASSERT_TRUE(steady_state.is_steady());
  EXPECT_THAT(steady_state.order(), UnorderedElementsAre(1, 2, 3));
}

TEST(SteadyState, TakesLongerAfterALockThatDidNotHold) {
  SteadyState steady_state;
  const auto steps_until_steady = [&] {
    int steps = 0;
    for (; !steady_state.is_steady(); ++steps) steady_state.repeat(1);
    return steps;
  };
  EXPECT_EQ(steps_until_steady(), 4);
  steady_state.begin_lock();
  steady_state.end_lock(2, false);
  EXPECT_EQ(steps_until_steady(), 7);
  steady_state.begin_lock();
  steady_state.end_lock(2, false);
  EXPECT_EQ(steps_until_steady(), 13);
  steady_state.begin_lock();
  steady_state.end_lock(1000, false);
  EXPECT_EQ(steps_until_steady(), 4);
  steady_state.begin_lock();
  steady_state.end_lock(1000, true);  // it held, but its end was dear
  EXPECT_EQ(steps_until_steady(), 7);
}

}  // namespace
}  // namespace hora
