// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/rhythm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

void repeat(Rhythm& rhythm, const std::vector<DecisionId>& ids) {
  for (const auto id : ids) rhythm.repeat(id);
}

TEST(Rhythm, IsSteadyWhenTheFourthEqualStepBegins) {
  Rhythm rhythm;
  repeat(rhythm, {1, 2, 3, 1, 2, 3, 1, 2, 3});
  EXPECT_FALSE(rhythm.is_steady());
  rhythm.repeat(1);
  ASSERT_TRUE(rhythm.is_steady());
  EXPECT_THAT(rhythm.order(), ElementsAre(1, 2, 3));
  EXPECT_EQ(rhythm.made(), 1u);
}

TEST(Rhythm, TheOrderWithinAStepMayVary) {
  Rhythm rhythm;
  repeat(rhythm, {1, 2, 3, 1, 3, 2, 1, 2, 3, 1, 3});
  ASSERT_TRUE(rhythm.is_steady());
  EXPECT_THAT(rhythm.order(), ElementsAre(1, 3, 2));
  EXPECT_EQ(rhythm.made(), 2u);
}

TEST(Rhythm, WhatIsDisturbedBeginsAnew) {
  Rhythm rhythm;
  repeat(rhythm, {1, 2, 1, 2, 1, 2, 1});
  ASSERT_TRUE(rhythm.is_steady());
  rhythm.disturb();
  EXPECT_FALSE(rhythm.is_steady());
  repeat(rhythm, {1, 2, 1, 2, 1, 2});
  EXPECT_FALSE(rhythm.is_steady());
  rhythm.repeat(1);
  EXPECT_TRUE(rhythm.is_steady());
}

TEST(Rhythm, WhatIsNotOfTheStepEndsIt) {
  Rhythm rhythm;
  repeat(rhythm, {1, 2, 1, 2, 1, 2, 1});
  ASSERT_TRUE(rhythm.is_steady());
  rhythm.repeat(9);
  EXPECT_FALSE(rhythm.is_steady());
}

TEST(Rhythm, OfStepsThatDecideSomethingTwice) {
  Rhythm rhythm;  // a barrier before and after each tensor
  for (int step = 0; step < 8 && !rhythm.is_steady(); ++step) repeat(rhythm, {7, 1, 7});
  ASSERT_TRUE(rhythm.is_steady());
  EXPECT_THAT(rhythm.order(), UnorderedElementsAre(7, 7, 1));
}

TEST(Rhythm, OfStepsThatBeginAfterSomethingElse) {
  Rhythm rhythm;
  repeat(rhythm, {50, 51, 52});  // once, before the training
  for (int step = 0; step < 10 && !rhythm.is_steady(); ++step) repeat(rhythm, {1, 2, 3});
  ASSERT_TRUE(rhythm.is_steady());
  EXPECT_THAT(rhythm.order(), UnorderedElementsAre(1, 2, 3));
}

TEST(Rhythm, TakesLongerAfterALockThatDidNotHold) {
  Rhythm rhythm;
  const auto steps_until_steady = [&] {
    int steps = 0;
    for (; !rhythm.is_steady(); ++steps) rhythm.repeat(1);
    return steps;
  };
  EXPECT_EQ(steps_until_steady(), 4);
  rhythm.begin_lock();
  rhythm.end_lock(2, false);
  EXPECT_EQ(steps_until_steady(), 7);
  rhythm.begin_lock();
  rhythm.end_lock(2, false);
  EXPECT_EQ(steps_until_steady(), 13);
  rhythm.begin_lock();
  rhythm.end_lock(1000, false);
  EXPECT_EQ(steps_until_steady(), 4);
  rhythm.begin_lock();
  rhythm.end_lock(1000, true);  // it held, but its end was dear
  EXPECT_EQ(steps_until_steady(), 7);
}

}  // namespace
}  // namespace hora
