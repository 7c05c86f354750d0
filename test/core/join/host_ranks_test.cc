// SPDX-License-Identifier: Apache-2.0
#include "core/join/host_ranks.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

const std::string kBoot = "00000000-0000-0000-0000-000000000001";
const std::string kOtherBoot = "00000000-0000-0000-0000-000000000002";

/// The members on these hosts, by rank.
std::vector<Member> members_on(const std::vector<std::string>& hosts) {
  std::vector<Member> members;
  for (const auto& host : hosts)
    members.push_back({static_cast<int>(members.size()), 100, host, kBoot + "pid:[1]"});
  return members;
}

/// The numbers of a rank whose rank and size alone are known.
std::vector<int> numbers_of(int rank, const std::vector<Member>& members) {
  Membership alone;
  alone.rank = rank;
  alone.size = static_cast<int>(members.size());
  alone.local_size = alone.cross_size = 0;
  const Membership settled = settle_host_ranks(alone, members);
  return {settled.local_rank, settled.local_size, settled.cross_rank, settled.cross_size};
}

TEST(HostRanks, CountOnEveryHost) {
  const auto members = members_on({"a", "a", "b", "b"});
  EXPECT_EQ(numbers_of(0, members), (std::vector{0, 2, 0, 2}));
  EXPECT_EQ(numbers_of(1, members), (std::vector{1, 2, 0, 2}));
  EXPECT_EQ(numbers_of(2, members), (std::vector{0, 2, 1, 2}));
  EXPECT_EQ(numbers_of(3, members), (std::vector{1, 2, 1, 2}));
}

TEST(HostRanks, MayBeDealtOutInTurns) {
  const auto members = members_on({"a", "b", "c", "a", "b"});
  EXPECT_EQ(numbers_of(2, members), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(numbers_of(3, members), (std::vector{1, 2, 0, 2}));
  EXPECT_EQ(numbers_of(4, members), (std::vector{1, 2, 1, 2}));
}

TEST(HostRanks, OnMachinesThatAreCalledAlikeDiffer) {
  auto members = members_on({"localhost", "localhost"});
  members[1].pid_space = kOtherBoot + "pid:[1]";
  EXPECT_EQ(numbers_of(1, members), (std::vector{0, 1, 1, 2}));
  members[1].pid_space = kBoot + "pid:[2]";
  EXPECT_EQ(numbers_of(1, members), (std::vector{1, 2, 0, 1}));
}

TEST(HostRanks, ThatALauncherToldStay) {
  Membership told;
  told.rank = 1;
  told.size = 2;
  told.local_rank = 1;
  told.local_size = 2;
  told.cross_rank = 0;
  told.cross_size = 1;
  const Membership settled = settle_host_ranks(told, members_on({"a", "b"}));
  EXPECT_EQ(settled.local_size, 2);
  EXPECT_EQ(settled.cross_size, 1);
}

}  // namespace
}  // namespace hora
