// SPDX-License-Identifier: Apache-2.0
#include "core/device/spin.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

class Spin : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(CrowdedOrNot, Spin, testing::Bool());

TEST_P(Spin, LooksOnceWhereTheConditionHolds) {
  int looks = 0;
  EXPECT_TRUE(spin(GetParam(), [&] { return ++looks == 1; }));
  EXPECT_EQ(looks, 1);
}

TEST_P(Spin, LooksUntilTheConditionHolds) {
  int looks = 0;
  EXPECT_TRUE(spin(GetParam(), [&] { return ++looks == 2; }));
  EXPECT_EQ(looks, 2);
}

TEST_P(Spin, GivesUpAfterAWhile) {
  EXPECT_FALSE(spin(GetParam(), [] { return false; }));
}

}  // namespace
}  // namespace hora
