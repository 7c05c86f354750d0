// SPDX-License-Identifier: Apache-2.0
#include "core/join/elastic_membership.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(ElasticMembership, CountsTheRanksOfARecordOnTheirHosts) {
  const elastic::GenerationRecord record{7, {{11, 2, 0}, {14, 2, 3}, {9, 0, 1}, {10, 5, 0}}, 3, false};
  const Membership second = membership_in(record, 14);
  EXPECT_EQ(second.generation, 7U);
  EXPECT_EQ((std::vector{second.rank, second.size, second.local_rank, second.local_size, second.cross_rank,
                         second.cross_size}),
            (std::vector{1, 4, 1, 2, 0, 1}));
  const Membership last = membership_in(record, 10);
  EXPECT_EQ(
      (std::vector{last.rank, last.size, last.local_rank, last.local_size, last.cross_rank, last.cross_size}),
      (std::vector{3, 4, 0, 1, 2, 3}));
}

TEST(ElasticMembership, MayBeOfOneRankAlone) {
  const Membership alone = membership_in({2, {{4, 1, 1}}, 0, false}, 4);
  EXPECT_EQ((std::vector{alone.rank, alone.size, alone.local_rank, alone.local_size, alone.cross_rank,
                         alone.cross_size}),
            (std::vector{0, 1, 0, 1, 0, 1}));
}

}  // namespace
}  // namespace hora
