// SPDX-License-Identifier: Apache-2.0
#include "core/base/ordinal.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Ordinal, EndsAsItIsSpoken) {
  EXPECT_EQ(ordinal(0), "0th");
  EXPECT_EQ(ordinal(1), "1st");
  EXPECT_EQ(ordinal(2), "2nd");
  EXPECT_EQ(ordinal(3), "3rd");
  EXPECT_EQ(ordinal(11), "11th");
  EXPECT_EQ(ordinal(112), "112th");
  EXPECT_EQ(ordinal(1042), "1042nd");
}

}  // namespace
}  // namespace hora
