// SPDX-License-Identifier: Apache-2.0
#include "core/base/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
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

/// Of each finite value and the next one: their middle, and the two float32 beside it.
void expect_nearest(std::uint16_t narrow(float), float widen(std::uint16_t), unsigned largest) {
  for (unsigned bits = 0; bits < largest; ++bits) {
    const auto low = static_cast<std::uint16_t>(bits);
    const auto high = static_cast<std::uint16_t>(bits + 1);
    const float middle = widen(low) + (widen(high) - widen(low)) / 2;
    ASSERT_EQ(narrow(middle), bits % 2 == 0 ? low : high) << bits;
    ASSERT_EQ(narrow(std::nextafter(middle, 0.0F)), low) << bits;
    ASSERT_EQ(narrow(std::nextafter(middle, kInfinity)), high) << bits;
  }
}

/// Each float32 gives the value of the one before it, or the next value. So only those between two middles
/// give a value. Negative ones give the same with the other sign.
template <std::uint16_t (*kNarrow)(float)>
void expect_steps_in_all_float32(std::uint16_t infinite) {
  constexpr std::uint32_t kInfinite = 0x7F800000;
  constexpr std::uint32_t kNegative = 0x80000000;
  const auto narrow = [](std::uint32_t bits) -> std::uint32_t { return kNarrow(std::bit_cast<float>(bits)); };
  std::uint32_t before = 0;
  std::uint32_t wrong = 0;
  for (std::uint32_t bits = 0; bits <= kInfinite; ++bits) {
    const std::uint32_t now = narrow(bits);
    wrong |= (now - before) & ~1U;
    wrong |= narrow(bits | kNegative) ^ now ^ 0x8000U;
    before = now;
  }
  EXPECT_EQ(wrong, 0U);
  EXPECT_EQ(narrow(0), 0U);
  EXPECT_EQ(narrow(kInfinite), infinite);
  for (std::uint32_t bits = kInfinite + 1; bits < kNegative; ++bits) {
    for (const std::uint32_t sign : {0U, kNegative})
      wrong |= (narrow(bits | sign) & 0x7FFFU) > infinite ? 0U : 1U;
  }
  EXPECT_EQ(wrong, 0U) << "a NaN that is none any more";
}

TEST(Float16, RoundsToNearestAndTiesToEven) {
  expect_nearest(float16_from, float_from_float16, 0x7BFF);
  expect_steps_in_all_float32<float16_from>(0x7C00);
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
  expect_nearest(bfloat16_from, float_from_bfloat16, 0x7F7F);
  expect_steps_in_all_float32<bfloat16_from>(0x7F80);
}

}  // namespace
}  // namespace hora
