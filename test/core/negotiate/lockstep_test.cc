// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/lockstep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;
using End = Lockstep::End;

TEST(Lockstep, IsReadyForWhatComesNext) {
  Lockstep step({11, 12, 13}, 0);
  EXPECT_TRUE(step.ask(12));
  EXPECT_EQ(step.ready(), 0u);
  EXPECT_EQ(step.waiting(), 1u);
  EXPECT_EQ(step.next(), 11u);
  EXPECT_TRUE(step.ask(11));
  EXPECT_EQ(step.ready(), 2u);
  EXPECT_THAT(step.decide(1), ElementsAre(11));
  EXPECT_EQ(step.ready(), 1u);
  EXPECT_EQ(step.next(), 12u);
}

TEST(Lockstep, GoesOnInTheMiddleOfAStepAndRoundAgain) {
  Lockstep step({11, 12, 13}, 2);
  EXPECT_TRUE(step.ask(11));
  EXPECT_EQ(step.ready(), 0u);
  EXPECT_TRUE(step.ask(13));
  EXPECT_EQ(step.ready(), 2u);
  EXPECT_THAT(step.decide(2), ElementsAre(13, 11));
  EXPECT_EQ(step.decided(), 2u);
}

TEST(Lockstep, RefusesWhatIsNotOfTheStepOrAskedForAlready) {
  Lockstep step({11, 12}, 0);
  EXPECT_FALSE(step.ask(99));
  EXPECT_TRUE(step.ask(11));
  EXPECT_FALSE(step.ask(11));
  step.decide(1);
  EXPECT_TRUE(step.ask(11));
}

TEST(Lockstep, OneThatAStepMakesTwiceIsReadyOnceAtATime) {
  Lockstep step({7, 1, 7}, 0);
  EXPECT_TRUE(step.ask(7));
  EXPECT_TRUE(step.ask(1));
  EXPECT_EQ(step.ready(), 2u);
  EXPECT_THAT(step.decide(1), ElementsAre(7));
  EXPECT_TRUE(step.ask(7));
  EXPECT_EQ(step.ready(), 2u);
  EXPECT_THAT(step.decide(2), ElementsAre(1, 7));
}

TEST(Lockstep, AWordSaysHowManyAndWhereAndWhetherToEnd) {
  Lockstep one({11, 12}, 0);
  Lockstep other({11, 12}, 0);
  one.ask(11);
  EXPECT_EQ(Lockstep::ready_in(one.word(End::no)), 1u);
  EXPECT_EQ(Lockstep::end_in(one.word(End::no)), End::no);
  EXPECT_EQ(Lockstep::end_in(one.word(End::at_once)), End::at_once);
  EXPECT_EQ(Lockstep::end_in(one.word(End::after_waiting)), End::after_waiting);
  EXPECT_EQ(Lockstep::ready_in(one.word(End::after_waiting)), 1u);
  EXPECT_EQ(Lockstep::place_in(one.word(End::after_waiting)), Lockstep::place_in(other.word(End::no)));
  one.decide(1);
  EXPECT_NE(Lockstep::place_in(one.word(End::no)), Lockstep::place_in(other.word(End::no)));
  EXPECT_NE(Lockstep::place_in(Lockstep({12, 11}, 0).word(End::no)), Lockstep::place_in(other.word(End::no)));
}

}  // namespace
}  // namespace hora
