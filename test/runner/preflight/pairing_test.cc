// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/pairing.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace hora::hrun {
namespace {

TEST(RoundRobinPairing, LetsEveryPairMeetOnceAndNobodyMeetTwoAtATime) {
  for (int players = 1; players <= 17; ++players) {
    std::set<std::pair<int, int>> met;
    for (int round = 0; round < rounds_of(players); ++round) {
      for (int player = 0; player < players; ++player) {
        const auto partner = partner_in(round, player, players);
        if (!partner) continue;
        EXPECT_NE(*partner, player);
        EXPECT_EQ(partner_in(round, *partner, players), player);
        if (*partner > player) {
          EXPECT_TRUE(met.insert({player, *partner}).second);
        }
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(players * (players - 1) / 2)) << players;
  }
}

TEST(RoundRobinPairing, TakesAsFewRoundsAsThereCanBe) {
  EXPECT_EQ(rounds_of(1), 0);
  EXPECT_EQ(rounds_of(2), 1);
  EXPECT_EQ(rounds_of(5), 5);
  EXPECT_EQ(rounds_of(6), 5);
}

}  // namespace
}  // namespace hora::hrun
