// SPDX-License-Identifier: Apache-2.0
#include "core/base/machine.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>

namespace hora {
namespace {

TEST(Machine, HasTheNameThatTheKernelHas) {
  utsname kernel{};
  ASSERT_EQ(::uname(&kernel), 0);
  EXPECT_EQ(host_name(), kernel.nodename);
}

TEST(Machine, HasOneBootAtATime) {
  EXPECT_EQ(boot_id().size(), kBootIdLength);
  EXPECT_EQ(boot_id(), boot_id());
}

}  // namespace
}  // namespace hora
