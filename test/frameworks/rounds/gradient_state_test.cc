// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/gradient_state.h"

#include <gtest/gtest.h>

namespace hora::rounds {
namespace {

GradientState reduced() {
  GradientState gradient;
  gradient.submitted();
  static_cast<void>(gradient.settled(true, true));
  return gradient;
}

TEST(GradientState, BringsOnlyThisRanksOwn) {
  GradientState gradient;
  EXPECT_EQ(gradient.bring(false, true, false), Bring::nothing);
  EXPECT_EQ(gradient.bring(true, true, false), Bring::gradient);
  gradient = reduced();
  EXPECT_EQ(gradient.bring(true, false, false), Bring::set_aside) << "of this step, even if clipped";
  gradient.end_step();
  EXPECT_EQ(gradient.bring(true, true, false), Bring::set_aside) << "of the last step, and untouched";
  EXPECT_EQ(gradient.bring(true, false, false), Bring::gradient) << "somebody wrote to it after the step";
  EXPECT_EQ(gradient.bring(true, false, true), Bring::stand_in);
}

TEST(GradientState, LeavesOneThatNobodyHasOrThatWasCleared) {
  for (const bool contributed : {false, true}) {
    GradientState gradient;
    static_cast<void>(gradient.bring(contributed, true, false));
    gradient.submitted();
    EXPECT_TRUE(gradient.is_pending());
    EXPECT_EQ(gradient.settled(contributed, false), Settle::leave);
    EXPECT_TRUE(gradient.is_settled() && !gradient.is_pending());
  }
  GradientState gradient;
  static_cast<void>(gradient.bring(false, true, false));
  gradient.submitted();
  EXPECT_EQ(gradient.settled(true, false), Settle::take) << "other ranks have a gradient";
}

TEST(GradientState, DropsTheBaseOfAReductionThatFails) {
  GradientState gradient = reduced();
  EXPECT_TRUE(gradient.touch(true, false));
  gradient.submitted();
  gradient.lost();
  EXPECT_FALSE(gradient.is_pending() || gradient.is_settled());
  gradient.submitted();
  EXPECT_EQ(gradient.settled(true, true), Settle::take);
  EXPECT_EQ(gradient.times_submitted(), 3U);
}

}  // namespace
}  // namespace hora::rounds
