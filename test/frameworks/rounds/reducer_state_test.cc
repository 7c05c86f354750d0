// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/reducer_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::rounds {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A state of dense gradients, each in a unit of its own or all in one.
ReducerState state_of(int parameters, bool together = false, int passes_per_round = 1) {
  ReducerState state("gradient.0", passes_per_round);
  int unit = state.units().add_unit();
  for (int i = 0; i < parameters; ++i) {
    if (i > 0 && !together) unit = state.units().add_unit();
    state.add_parameter("p" + std::to_string(i), unit, kDense);
  }
  return state;
}

/// The last answer to the hooks of one gradient, the first one of its pass or a later one.
After come(ReducerState& state, int parameter, int pass) {
  for (Before todo; (todo = state.before(parameter, pass)) != Before::nothing;) {
    if (todo == Before::begin) state.begin(pass, true);
    if (todo == Before::look) static_cast<void>(state.touch(parameter, true, true));
  }
  return state.after(parameter, pass, true);
}

void reduce(ReducerState& state, const std::vector<int>& parameters) {
  for (const int each : parameters) static_cast<void>(state.bring(each, true, true));
  state.submitted(parameters);
  for (const int each : parameters) static_cast<void>(state.settled(each, true, true));
}

/// Makes a round of everything.
void make_round(ReducerState& state) {
  for (const auto& unit : state.units().unsubmitted()) reduce(state, unit);
  state.end_round();
}

TEST(ReducerState, SubmitsUnitsAsTheyBecomeCompleteButTheLastOne) {
  auto state = state_of(3);
  EXPECT_EQ(come(state, 2, 7), After::submit);
  EXPECT_EQ(come(state, 0, 7), After::submit);
  EXPECT_EQ(come(state, 1, 7), After::nothing);
  auto together = state_of(3, true);
  together.add_parameter("other", together.units().add_unit(), kDense);
  EXPECT_EQ(come(together, 2, 7), After::nothing);
  EXPECT_EQ(come(together, 0, 7), After::nothing);
  EXPECT_EQ(come(together, 1, 7), After::submit);
}

TEST(ReducerState, OnlyPlacesGradientsWhereNothingOverlaps) {
  auto state = state_of(2);
  state.begin(1, false);
  EXPECT_EQ(state.after(0, 1, true), After::place);
  EXPECT_EQ(state.after(0, 1, false), After::submit) << "a gradient on a GPU goes at once";
}

TEST(ReducerState, CountsPassesAndOwesARoundAfterThoseThatOnlyAddUp) {
  auto state = state_of(2, false, 2);
  EXPECT_EQ(come(state, 0, 1), After::nothing);
  EXPECT_FALSE(state.leave(1));
  EXPECT_TRUE(state.is_owed());
  EXPECT_EQ(come(state, 0, 2), After::submit);
  EXPECT_FALSE(state.leave(1)) << "another pass";
  EXPECT_TRUE(state.leave(2));
  make_round(state);
  EXPECT_FALSE(state.owes_round());
  state.set_accumulating(true);
  come(state, 0, 3);
  come(state, 0, 4);
  EXPECT_FALSE(state.leave(4));
  EXPECT_TRUE(state.owes_round());
}

TEST(ReducerState, AddsToWhatWasReducedBefore) {
  auto state = state_of(1);
  make_round(state);
  EXPECT_EQ(state.before(0, 5), Before::begin);
  state.begin(5, true);
  EXPECT_EQ(state.before(0, 5), Before::look);
  EXPECT_TRUE(state.touch(0, true, false));
  EXPECT_EQ(state.before(0, 5), Before::nothing);
  EXPECT_EQ(state.bring(0, true, false), Bring::gradient);
  state.submitted({0});
  EXPECT_EQ(state.settled(0, true, true), Settle::add);
  EXPECT_EQ(state.name_of(0), "gradient.0.p0 (pass 3)");
}

TEST(ReducerState, AddsNothingToAGradientThatComesAfterAllWereCleared) {
  auto state = state_of(1);
  make_round(state);
  state.set_accumulating(true);
  come(state, 0, 1);  // sets the reduced gradient aside
  EXPECT_FALSE(state.leave(1));
  state.set_accumulating(false);
  EXPECT_FALSE(state.abandon());
  state.forget();
  come(state, 0, 2);
  EXPECT_EQ(state.bring(0, true, true), Bring::gradient);
  state.submitted({0});
  EXPECT_EQ(state.settled(0, true, true), Settle::take);
}

TEST(ReducerState, AGradientThatIsAddedToWhileItIsReducedIsReducedAgainByItself) {
  auto state = state_of(3);
  EXPECT_EQ(come(state, 0, 1), After::submit);
  static_cast<void>(state.bring(0, true, true));
  state.submitted({0});
  EXPECT_EQ(state.before(0, 1), Before::settle);
  EXPECT_THAT(state.pending_with(0), ElementsAre(0));
  EXPECT_EQ(state.settled(0, true, true), Settle::take);
  EXPECT_EQ(state.before(0, 1), Before::look);
  EXPECT_TRUE(state.touch(0, true, false)) << "in the first round, too";
  EXPECT_EQ(state.after(0, 1, true), After::submit);
}

TEST(ReducerState, RefusesAGradientWhoseFirstHookDidNotRun) {
  auto state = state_of(2);
  make_round(state);
  state.begin(1, true);
  EXPECT_EQ(state.after(0, 1, true), After::unexpected);
}

TEST(ReducerState, NumbersTheRoundsOfAStepInNames) {
  auto state = state_of(1);
  EXPECT_EQ(state.numbered("kinds"), "gradient.0.kinds");
  make_round(state);
  EXPECT_EQ(state.numbered("kinds"), "gradient.0.kinds (pass 2)");
  state.end_step();
  EXPECT_EQ(state.numbered("kinds"), "gradient.0.kinds");
}

TEST(ReducerState, APassThatFailsLeavesARoundOfStandIns) {
  auto state = state_of(2);
  come(state, 0, 1);
  EXPECT_TRUE(state.fail("a bad batch"));
  EXPECT_FALSE(state.fail("another") && state.failed_with() == "another");
  EXPECT_TRUE(state.is_due() && state.owes_round() && state.abandon());
  EXPECT_EQ(state.bring(0, true, true), Bring::stand_in);
  make_round(state);
  EXPECT_FALSE(state.is_due() || state.abandon());
  state.spoil("rank 1 failed");
  EXPECT_EQ(state.spoiled(), "rank 1 failed");
  EXPECT_EQ(state.before(0, 2), Before::begin);
  state.begin(2, true);
  EXPECT_EQ(state.before(0, 2), Before::nothing) << "no gradient of that round counts";
  EXPECT_EQ(state.spoiled(), "");
}

TEST(ReducerState, APassThatFailsAmongThoseThatAddUpIsDueWithTheirRound) {
  auto state = state_of(1, false, 2);
  EXPECT_FALSE(state.fail("a bad batch"));
  come(state, 0, 2);
  EXPECT_TRUE(state.leave(2));
  EXPECT_EQ(state.bring(0, true, true), Bring::stand_in);
}

TEST(ReducerState, APassThatHasBegunAndIsNotUnderWayHasFailed) {
  auto state = state_of(2);
  EXPECT_FALSE(state.abandon());
  come(state, 0, 1);
  EXPECT_TRUE(state.abandon());
  EXPECT_EQ(state.failed_with(), "backward() failed");
}

TEST(ReducerState, LearnsTheKindsOfGradients) {
  ReducerState state("gradient.0");
  const int unit = state.units().add_unit();
  for (const char* name : {"dense", "sparse", "unused", "other"}) state.add_parameter(name, unit);
  EXPECT_EQ(come(state, 0, 1), After::nothing);
  EXPECT_THAT(state.units().unasked(), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(state.units().unsubmitted(), IsEmpty());
  state.units().asked(state.units().unasked());
  EXPECT_TRUE(state.units().awaits_kinds());
  state.units().learn({kDense, 1, kUnknown, kDense}, true);
  EXPECT_THAT(state.units().unasked(), IsEmpty()) << "once in a round";
  EXPECT_THAT(state.units().unsubmitted(), ElementsAre(ElementsAre(0, 3), ElementsAre(1)));
  make_round(state);
  state.forget();
  EXPECT_THAT(state.units().unasked(), ElementsAre(2));
  EXPECT_EQ(come(state, 1, 2), After::submit);
  EXPECT_EQ(come(state, 0, 2), After::nothing);
  EXPECT_EQ(come(state, 3, 2), After::nothing) << "the last unit waits for the end";
}

TEST(ReducerState, BeginsWithOtherRanksAsIfItWereNew) {
  ReducerState state("gradient.0");
  const int unit = state.units().add_unit();
  for (const char* name : {"dense", "sparse"}) state.add_parameter(name, unit);
  state.add_parameter("flag", state.units().add_unit(), kDense);
  for (int pass = 1; pass < 4; ++pass) {
    come(state, 0, pass);
    EXPECT_THAT(state.units().unasked(), ElementsAre(0, 1)) << "in generation " << pass;
    state.units().asked(state.units().unasked());
    state.units().learn({kDense, 1}, true);
    EXPECT_THAT(state.units().unsubmitted(), ElementsAre(ElementsAre(2), ElementsAre(0), ElementsAre(1)));
    state.open_round();
    state.submitted({0});
    state.note_failure("ranks have changed");
    state.begin_generation();
    EXPECT_THAT(state.pending(), IsEmpty());
    EXPECT_FALSE(state.abandon()) << "no other rank waits";
    EXPECT_EQ(state.name_of(0), "gradient.0.dense");
    EXPECT_EQ(state.units().add_unit(), pass + 2) << "one more than the units of the test and a sparse one";
  }
}

}  // namespace
}  // namespace hora::rounds
