// SPDX-License-Identifier: Apache-2.0
#include "core/base/bell.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

bool rings(const Bell& bell) {
  pollfd event = bell.event();
  return ::poll(&event, 1, 0) == 1;
}

TEST(Bell, RingsUntilItIsSilenced) {
  const Bell bell;
  EXPECT_FALSE(rings(bell));
  bell.ring();
  bell.ring();
  EXPECT_TRUE(rings(bell));
  bell.silence();
  EXPECT_FALSE(rings(bell));
  bell.silence();
  EXPECT_FALSE(rings(bell));
}

}  // namespace
}  // namespace hora
