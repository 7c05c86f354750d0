// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/binding.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

constexpr int kNoLimit = 1 << 20;

const std::vector<Core> kServer = cores_of("numa:2 core:4 pu:2", {});

std::vector<std::string> described(BindTo how, const std::vector<Core>& cores, int ranks,
                                   int quota = kNoLimit) {
  std::vector<std::string> all;
  for (const auto& binding : bind_ranks(how, cores, quota, ranks)) all.push_back(describe(binding));
  return all;
}

using Texts = std::vector<std::string>;

TEST(BindRanks, GivesEveryRankAnEqualShareOfNeighbouringCores) {
  EXPECT_EQ(described(BindTo::core, kServer, 4), (Texts{"cpus 0-3 (2 cores)", "cpus 4-7 (2 cores)",
                                                        "cpus 8-11 (2 cores)", "cpus 12-15 (2 cores)"}));
  EXPECT_EQ(described(BindTo::core, kServer, 3),
            (Texts{"cpus 0-3 (2 cores)", "cpus 4-9 (3 cores)", "cpus 10-15 (3 cores)"}));
  EXPECT_EQ(described(BindTo::core, kServer, 1), Texts{"cpus 0-15 (8 cores)"});
}

TEST(BindRanks, LeavesRanksTheWholeNodeOnWhichTheirShareLies) {
  EXPECT_EQ(described(BindTo::numa, kServer, 4), (Texts{"cpus 0-7 (2 cores)", "cpus 0-7 (2 cores)",
                                                        "cpus 8-15 (2 cores)", "cpus 8-15 (2 cores)"}));
  EXPECT_EQ(described(BindTo::numa, kServer, 2), (Texts{"cpus 0-7 (4 cores)", "cpus 8-15 (4 cores)"}));
}

TEST(BindRanks, KeepsToTheCpusThatMayBeUsed) {
  const auto some = cores_of("numa:2 core:4 pu:2", {2, 3, 6, 8, 9, 12});
  EXPECT_EQ(described(BindTo::core, some, 2), (Texts{"cpus 2-3,6 (2 cores)", "cpus 8-9,12 (2 cores)"}));
}

TEST(BindRanks, BindsNobodyWhereThereAreMoreRanksThanCores) {
  EXPECT_EQ(described(BindTo::core, kServer, 8).size(), 8u);
  EXPECT_EQ(described(BindTo::core, kServer, 9), Texts{});
  EXPECT_EQ(described(BindTo::core, kServer, 4, 3),
            Texts{});  // of whose time only three cores' worth is ours
  EXPECT_EQ(described(BindTo::none, kServer, 2), Texts{});
}

TEST(BindRanks, CountsNoMoreCoresThanThereIsTimeFor) {
  EXPECT_EQ(described(BindTo::core, kServer, 2, 4), (Texts{"cpus 0-7 (2 cores)", "cpus 8-15 (2 cores)"}));
}

TEST(BindTo, HasNames) {
  for (const BindTo how : {BindTo::none, BindTo::core, BindTo::numa})
    EXPECT_EQ(parse_bind_to(name(how)), how);
  try {
    static_cast<void>(parse_bind_to("socket"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--bind-to: must be none, core or numa, not 'socket'");
  }
}

}  // namespace
}  // namespace hora::hrun
