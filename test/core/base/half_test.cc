// SPDX-License-Identifier: Apache-2.0
#include "core/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hora {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A float16's value by its definition.
double value_of_float16(unsigned bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double fraction = bits & 1023;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

TEST(Float16, EveryFiniteValueIsThatOfItsDefinition) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7C00) == 0x7C00) continue;
    ASSERT_EQ(static_cast<double>(float_from_float16(static_cast<std::uint16_t>(bits))),
              value_of_float16(bits))
        << bits;
  }
}

TEST(Float16, EveryValueComesBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_float16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_GT(bits & 0x7FFF, 0x7C00u);
      EXPECT_TRUE(std::isnan(float_from_float16(float16_from(value))));
    } else {
      ASSERT_EQ(float16_from(value), bits);
    }
  }
}

TEST(Float16, RoundsToNearestAndTiesToEven) {
  for (unsigned bits = 0; bits < 0x7BFF; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float middle = (float_from_float16(low) + float_from_float16(high)) / 2;
    ASSERT_EQ(float16_from(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(float16_from(std::nextafter(middle, 0.0F)), low) << bits;
    ASSERT_EQ(float16_from(std::nextafter(middle, kInfinity)), high) << bits;
  }
}

TEST(Float16, WhatIsTooLargeBecomesInfinite) {
  EXPECT_EQ(float16_from(65519.996F), 0x7BFF);
  EXPECT_EQ(float16_from(65520.0F), 0x7C00);
  EXPECT_EQ(float16_from(1e30F), 0x7C00);
  EXPECT_EQ(float16_from(-kInfinity), 0xFC00);
  EXPECT_EQ(float_from_float16(0x7C00), kInfinity);
  EXPECT_EQ(float16_from(1e-30F), 0);
  EXPECT_EQ(float16_from(-0.0F), 0x8000);
}

TEST(Bfloat16, EveryValueComesBack) {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_bfloat16(static_cast<std::uint16_t>(bits));
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(float_from_bfloat16(bfloat16_from(value))));
    } else {
      ASSERT_EQ(bfloat16_from(value), bits);
    }
  }
}

TEST(Bfloat16, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(bfloat16_from(1.0F), 0x3F80);
  EXPECT_EQ(bfloat16_from(1.00390625F), 0x3F80);  // halfway to the next: even
  EXPECT_EQ(bfloat16_from(1.01171875F), 0x3F82);  // halfway to the next: even
  EXPECT_EQ(bfloat16_from(1.00390637F), 0x3F81);
  EXPECT_EQ(bfloat16_from(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(float_from_bfloat16(bfloat16_from(std::nanf("")))));
}

}  // namespace
}  // namespace hora
