// SPDX-License-Identifier: Apache-2.0
#include "core/join/roster.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Roster, ComesBackAsItWasSent) {
  const Roster roster{"0123abcd", {{0, 10, "a", "x", {"10.1.0.1", "fd00::1"}}, {1, 11, "b", ""}}, 16};
  EXPECT_EQ(decode_roster(encode(roster), 2), roster);
  EXPECT_THROW(decode_roster(encode(roster), 3), Error);
  EXPECT_EQ(decode_member(encode(roster.members[1]), 1), roster.members[1]);
}

TEST(Roster, AJobIsEightHexadecimalDigitsBecauseItNamesAFolder) {
  EXPECT_THROW(decode_roster(encode(Roster{"../../et", {{0, 1, "a", ""}}}), 1), Error);
}

TEST(ThisMember, KnowsItsProcess) {
  EXPECT_GT(this_member(0).pid, 0);
  EXPECT_FALSE(this_member(0).host.empty());
}

}  // namespace
}  // namespace hora
