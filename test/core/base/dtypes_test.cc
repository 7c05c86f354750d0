// SPDX-License-Identifier: Apache-2.0
#include "core/base/dtypes.h"

#include "core/base/elements.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(DType, IsFoundByItsName) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_named(name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_named("float128"), std::nullopt);
}

TEST(DType, HasTheSizeOfItsElements) {
  EXPECT_EQ(size_of(DType::boolean), 1u);
  EXPECT_EQ(size_of(DType::bfloat16), 2u);
  EXPECT_EQ(size_of(DType::float64), 8u);
}

TEST(DType, TellsFloatsFromIntegers) {
  EXPECT_TRUE(is_float(DType::float16));
  EXPECT_TRUE(is_float(DType::float64));
  EXPECT_FALSE(is_float(DType::int64));
  EXPECT_FALSE(is_float(DType::boolean));
}

TEST(DType, IsSummedInFloat32IfItIsAFloatOf16Bits) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool half = dtype == DType::float16 || dtype == DType::bfloat16;
    EXPECT_EQ(is_half(dtype), half) << name(dtype);
    EXPECT_EQ(sum_dtype(dtype), half ? DType::float32 : dtype) << name(dtype);
  }
}

TEST(DType, HasAKindThatSaysWhetherItIsAFloat) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const NumberKind kind = kind_of(dtype);
    EXPECT_EQ(is_float(dtype), kind == NumberKind::ieee_float || kind == NumberKind::brain_float)
        << name(dtype);
  }
}

TEST(DType, HasNumbersOfItsSize) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto [number, each] = numbers_of(dtype);
    EXPECT_EQ(each, is_complex(dtype) ? 2U : 1U) << name(dtype);
    EXPECT_EQ(number == dtype, !is_complex(dtype)) << name(dtype);
    EXPECT_EQ(size_of(number) * each, size_of(dtype)) << name(dtype);
    if (is_float8(dtype)) continue;
    EXPECT_EQ(with_element(number, [](auto element) { return sizeof element; }), size_of(number))
        << name(dtype);
  }
}

TEST(ReduceOp, HasTheNameOfNumPy) { EXPECT_EQ(name(ReduceOp::product), "product"); }

}  // namespace
}  // namespace hora
