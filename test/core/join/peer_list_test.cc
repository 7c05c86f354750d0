// SPDX-License-Identifier: Apache-2.0
#include "core/join/peer_list.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(PeerList, ComesBackAsItWasSent) {
  const PeerList peer_list{"0123abcd", {{0, 10, "a", "x", {"10.1.0.1", "fd00::1"}}, {1, 11, "b", ""}}, 16};
  EXPECT_EQ(decode_peer_list(encode(peer_list), 2), peer_list);
  EXPECT_THROW(decode_peer_list(encode(peer_list), 3), Error);
  EXPECT_EQ(decode_member(encode(peer_list.members[1]), 1), peer_list.members[1]);
}

TEST(PeerList, AJobIsEightHexadecimalDigitsBecauseItNamesAFolder) {
  EXPECT_THROW(decode_peer_list(encode(PeerList{"../../et", {{0, 1, "a", ""}}}), 1), Error);
}

TEST(ThisMember, KnowsItsProcess) {
  EXPECT_GT(this_member(0).pid, 0);
  EXPECT_FALSE(this_member(0).host.empty());
}

}  // namespace
}  // namespace hora
