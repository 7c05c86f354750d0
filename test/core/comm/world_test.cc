// SPDX-License-Identifier: Apache-2.0
#include "core/comm/world.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Describe, SaysWhoAMemberIs) {
  EXPECT_EQ(describe(Member{2, 4711, "node7", {}}), "rank 2 (pid 4711 on node7)");
}

TEST(DescribeRanks, ShortensRuns) {
  EXPECT_EQ(describe_ranks({3}), "rank 3");
  EXPECT_EQ(describe_ranks({0, 1}), "ranks 0 and 1");
  EXPECT_EQ(describe_ranks({0, 2}), "ranks 0 and 2");
  EXPECT_EQ(describe_ranks({0, 1, 2, 5, 7}), "ranks 0-2, 5, 7");
}

}  // namespace
}  // namespace hora
