// SPDX-License-Identifier: Apache-2.0
#include "core/compose/blocks.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace hora {
namespace {

using Lengths = std::vector<std::size_t>;

TEST(Blocks, HaveTheSharesOfAHostsRanksOneAfterTheOther) {
  const Hosts hosts = hosts_of({{0, 1}, {2, 3, 4}}, 0);
  const Blocks blocks(hosts, Lengths{3, 4, 0, 5, 1});
  EXPECT_EQ(blocks.longest(), 7u);
  EXPECT_EQ(blocks.begin(0), 0u);
  EXPECT_EQ(blocks.begin(1), 7u);
  EXPECT_EQ(blocks.length(1, 2, 100), 4u);
  EXPECT_EQ(blocks.length(1, 8, 9), 0u);
  EXPECT_EQ(blocks.shares(0, 2, 5), (Lengths{1, 2}));
  EXPECT_EQ(blocks.shares(1, 4, 9), (Lengths{0, 1, 1}));
  EXPECT_EQ(blocks.begin_of_share(0, 1, 5), 2u);
  EXPECT_EQ(blocks.begin_of_share(0, 1, 1), 0u);
  EXPECT_EQ(blocks.begin_of_share(1, 1, 100), 5u);
}

TEST(Blocks, LayOutTheirPartsInRankOrder) {
  const Hosts hosts = hosts_of({{0, 2}, {1, 3}}, 0);
  const Blocks blocks(hosts, Lengths{2, 3, 2, 1});
  std::string all(8, '.');
  const auto lay_out = [&](std::size_t host, std::size_t begin, const std::string& part) {
    blocks.lay_out(host, begin, part.size(), reinterpret_cast<const std::byte*>(part.data()),
                   reinterpret_cast<std::byte*>(all.data()));
  };
  lay_out(0, 1, "ac");
  EXPECT_EQ(all, ".a...c..");
  lay_out(0, 0, "A");
  lay_out(0, 3, "C");
  lay_out(1, 0, "bBbd");
  EXPECT_EQ(all, "AabBbcCd");
}

}  // namespace
}  // namespace hora
