// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/this_host.h"

#include "core/base/machine.h"
#include "core/join/network.h"

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

TEST(IsThisHost, KnowsTheLoopback) {
  for (const char* name : {"localhost", "127.0.0.1", "127.0.1.1", "::1"})
    EXPECT_TRUE(is_this_host(name)) << name;
}

TEST(IsThisHost, KnowsItsOwnNameAndAddresses) {
  EXPECT_TRUE(is_this_host(host_name()));
  for (const auto& address : own_addresses("")) EXPECT_TRUE(is_this_host(address)) << address;
}

TEST(IsThisHost, IsNobodyElse) {
  for (const char* name : {"no-such-host.invalid", "192.0.2.77", "2001:db8::77", "me@localhost", ""})
    EXPECT_FALSE(is_this_host(name)) << name;
}

TEST(AreThisHost, AnswersForManyInOrder) {
  EXPECT_EQ(are_this_host({"localhost", "no-such-host.invalid", "127.0.0.1"}),
            (std::vector<bool>{true, false, true}));
}

}  // namespace
}  // namespace hora::hrun
