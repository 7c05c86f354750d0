// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/reductions.h"

#include "core/backend/nccl_module.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora::nccl {
namespace {

NcclReduction sum_of(DType dtype, double prescale, double postscale, int divisor) {
  return as_nccl_reduces({dtype, ReduceOp::sum, prescale, postscale, divisor}, 3);
}

TEST(NcclReduction, MultipliesSumsBeforeTheyAreTaken) {
  EXPECT_EQ(sum_of(DType::float32, 1.0, 1.0, 1), (NcclReduction{ncclFloat32, ncclSum, 1.0, 1.0}));
  EXPECT_EQ(sum_of(DType::float32, 0.5, 4.0, 3), (NcclReduction{ncclFloat32, ncclSum, 0.5 * (4.0 / 3), 1.0}));
  EXPECT_EQ(sum_of(DType::float64, -3.0, 1.0, 1), (NcclReduction{ncclFloat64, ncclSum, -3.0, 1.0}));
}

TEST(NcclReduction, MultipliesShortFloatsByPowersOfTwoBefore) {
  EXPECT_EQ(sum_of(DType::float16, 1.0, 1.0, 4), (NcclReduction{ncclFloat16, ncclSum, 0.25, 1.0}));
  EXPECT_EQ(sum_of(DType::bfloat16, 1.0, 1.0, 3), (NcclReduction{ncclBfloat16, ncclSum, 0.25, 4.0 / 3}));
  EXPECT_EQ(sum_of(DType::float16, 1.0, -1.0, 5), (NcclReduction{ncclFloat16, ncclSum, 0.125, -8.0 / 5}));
}

TEST(NcclReduction, NeverMakesShortFloatsLargerBeforeTheyAreSummed) {
  EXPECT_EQ(sum_of(DType::float16, 3.0, 1.0, 1), (NcclReduction{ncclFloat16, ncclSum, 1.0, 3.0}));
  EXPECT_EQ(sum_of(DType::float16, 1e-9, 1.0, 1).before, 0x1p-14);
}

TEST(NcclReduction, MultipliesTheLargestAndTheSmallestAfterwards) {
  EXPECT_EQ(as_nccl_reduces({DType::float32, ReduceOp::max, 2.0, 3.0, 1}, 2),
            (NcclReduction{ncclFloat32, ncclMax, 1.0, 6.0}));
  EXPECT_EQ(as_nccl_reduces({DType::float32, ReduceOp::max, -2.0, 1.0, 1}, 2),
            (NcclReduction{ncclFloat32, ncclMin, 1.0, -2.0}));
  EXPECT_EQ(as_nccl_reduces({DType::float32, ReduceOp::min, -1.0, 1.0, 2}, 2),
            (NcclReduction{ncclFloat32, ncclMax, 1.0, -0.5}));
}

TEST(NcclReduction, MultipliesProductsOnceForEachRank) {
  EXPECT_EQ(as_nccl_reduces({DType::float64, ReduceOp::product, 2.0, 3.0, 1}, 3),
            (NcclReduction{ncclFloat64, ncclProd, 1.0, 24.0}));
}

TEST(NcclReduction, TakesTruthForBytes) {
  const auto op = [](ReduceOp which) { return as_nccl_reduces({DType::boolean, which, 1.0, 1.0, 1}, 2).op; };
  EXPECT_EQ(op(ReduceOp::sum), ncclMax);
  EXPECT_EQ(op(ReduceOp::max), ncclMax);
  EXPECT_EQ(op(ReduceOp::product), ncclMin);
  EXPECT_EQ(op(ReduceOp::min), ncclMin);
  EXPECT_EQ(nccl_type(DType::boolean), ncclUint8);
}

TEST(NcclReduction, HasNoShortIntegers) {
  for (const DType dtype : {DType::int16, DType::uint16, DType::complex64, DType::float8_e5m2}) {
    EXPECT_EQ(thrown([dtype] { static_cast<void>(nccl_type(dtype)); }).code, Code::internal);
    EXPECT_FALSE(nccl_reduces({dtype, ReduceOp::sum, 1.0, 1.0, 1}));
  }
}

}  // namespace
}  // namespace hora::nccl
