// SPDX-License-Identifier: Apache-2.0
#include "core/compose/phases.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Phases, ScaleInputsFirstAndResultsLast) {
  const Phases phases = phases_of({DType::float32, ReduceOp::sum, 0.5, 4.0, 3});
  EXPECT_EQ(phases.within, (Reduction{DType::float32, ReduceOp::sum, 0.5, 1.0, 1}));
  EXPECT_EQ(phases.across, (Reduction{DType::float32, ReduceOp::sum, 1.0, 4.0, 3}));
}

TEST(Phases, DivideSixteenBitSumsBeforeTheyAreRounded) {
  for (const DType dtype : {DType::float16, DType::bfloat16}) {
    const Phases mean = phases_of({dtype, ReduceOp::sum, 0.5, 1.0, 8});
    EXPECT_EQ(mean.within, (Reduction{dtype, ReduceOp::sum, 0.5, 1.0, 8}));
    EXPECT_EQ(mean.across, (Reduction{dtype, ReduceOp::sum, 1.0, 1.0, 1}));
    const Phases by_factor = phases_of({dtype, ReduceOp::sum, 1.0, -0.125, 1});
    EXPECT_EQ(by_factor.within.postscale, -0.125);
    EXPECT_EQ(by_factor.across.postscale, 1.0);
    const Phases larger = phases_of({dtype, ReduceOp::sum, 1.0, 16.0, 8});  // could overflow if done first
    EXPECT_EQ(larger.within, (Reduction{dtype, ReduceOp::sum, 1.0, 1.0, 1}));
    EXPECT_EQ(larger.across, (Reduction{dtype, ReduceOp::sum, 1.0, 16.0, 8}));
    EXPECT_EQ(phases_of({dtype, ReduceOp::max, 1.0, 0.5, 1}).across.postscale, 0.5);
  }
}

TEST(Phases, AreNotForMeansOfSmallIntegers) {
  EXPECT_FALSE(has_phases({DType::int8, ReduceOp::sum, 1.0, 1.0, 2}));
  EXPECT_FALSE(has_phases({DType::int32, ReduceOp::sum, 1.0, 1.0, 2}));
  EXPECT_FALSE(has_phases({DType::int64, ReduceOp::sum, 1.0, 1.0, 2}));
  EXPECT_TRUE(has_phases({DType::int8, ReduceOp::sum, 1.0, 1.0, 1}));
  EXPECT_TRUE(has_phases({DType::float16, ReduceOp::sum, 1.0, 1.0, 2}));
}

}  // namespace
}  // namespace hora
