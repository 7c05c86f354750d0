// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/placement.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

std::string refusal(const std::vector<HostSlots>& hosts, int ranks, bool oversubscribe) {
  try {
    static_cast<void>(place(hosts, ranks, oversubscribe));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// "a: 0 1 2; b: 3"
std::string described(const std::vector<HostShare>& shares) {
  std::string text;
  for (const auto& share : shares) {
    text += (text.empty() ? "" : "; ") + share.host + ":";
    for (const auto& placement : share.placements) text += " " + std::to_string(placement.rank);
  }
  return text;
}

TEST(Place, FillsTheSlotsOfOneHostAfterTheOther) {
  const auto shares = place({{"a", 2}, {"b", 3}, {"c", 4}}, 4, false);
  EXPECT_EQ(described(shares), "a: 0 1; b: 2 3");
  EXPECT_EQ(shares[1].placements[1], (RankPlacement{3, 4, 1, 2, 1, 2, 1}));
}

TEST(Place, CountsHostsByLocalRankWhereSlotsDiffer) {
  const auto shares = place({{"a", 1}, {"b", 3}, {"c", 2}}, 6, false);
  EXPECT_EQ(shares[0].placements[0], (RankPlacement{0, 6, 0, 1, 0, 3, 0}));
  EXPECT_EQ(shares[1].placements[0], (RankPlacement{1, 6, 0, 3, 1, 3, 1}));
  EXPECT_EQ(shares[1].placements[1], (RankPlacement{2, 6, 1, 3, 0, 2, 1}));
  EXPECT_EQ(shares[1].placements[2], (RankPlacement{3, 6, 2, 3, 0, 1, 1}));
  EXPECT_EQ(shares[2].placements[1], (RankPlacement{5, 6, 1, 2, 1, 2, 2}));
}

TEST(Place, SaysHowManySlotsThereAre) {
  EXPECT_EQ(refusal({{"a", 2}, {"b", 2}}, 5, false),
            "-np 5 is more than the slots of the hosts, which are 4; --oversubscribe starts as many all the "
            "same");
}

TEST(Place, GivesHostsOneMoreInTurn) {
  EXPECT_EQ(described(place({{"a", 1}, {"b", 2}}, 6, true)), "a: 0 1 2; b: 3 4 5");
  EXPECT_EQ(described(place({{"a", 1}, {"b", 1}}, 3, true)), "a: 0 1; b: 2");
}

TEST(Place, KeepsToWhatAHostTakesAtMost) {
  const std::vector<HostSlots> hosts{{"a", 1, "", 2}, {"b", 1, "", 3}};
  EXPECT_EQ(described(place(hosts, 5, true)), "a: 0 1; b: 2 3 4");
  EXPECT_EQ(refusal(hosts, 7, true), "-np 7 is more than the max_slots of the hosts, which are 5");
}

}  // namespace
}  // namespace hora::hrun
