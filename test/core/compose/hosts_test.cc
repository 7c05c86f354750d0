// SPDX-License-Identifier: Apache-2.0
#include "core/compose/hosts.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

using Ranks = std::vector<std::vector<int>>;

TEST(Hosts, FindEveryRank) {
  const Hosts hosts = hosts_of({{0, 3, 4}, {1, 2}}, 4);
  EXPECT_EQ(hosts.own, 0u);
  EXPECT_EQ(hosts.place, 2u);
  EXPECT_EQ(hosts.here(), (std::vector<int>{0, 3, 4}));
  EXPECT_EQ(hosts.find(2), (std::pair<std::size_t, std::size_t>{1, 1}));
  EXPECT_EQ(hosts.least(), 2u);
  EXPECT_THROW(static_cast<void>(hosts.find(5)), Error);
}

TEST(Hosts, KnowWhetherTheyAreInRankOrder) {
  EXPECT_TRUE(hosts_of({{0, 1}, {2}}, 0).in_rank_order());
  EXPECT_FALSE(hosts_of({{0, 2}, {1}}, 0).in_rank_order());
  EXPECT_FALSE(hosts_of({{1, 2}, {0}}, 0).in_rank_order());
}

TEST(Hosts, SpreadSomeOfTheirRanksOverThoseThatHaveOne) {
  const Hosts hosts = hosts_of({{0, 1, 2}, {3, 4}, {5}}, 0);
  EXPECT_EQ(spread(hosts, std::vector<int>{0, 2}), (Ranks{{0, 1}}));
  EXPECT_EQ(spread(hosts, std::vector<int>{1, 4, 5}), (Ranks{{0}, {1}, {2}}));
  EXPECT_EQ(spread(hosts, std::vector<int>{5, 4, 0, 3}), (Ranks{{0}, {1, 3}, {2}}));
}

}  // namespace
}  // namespace hora
