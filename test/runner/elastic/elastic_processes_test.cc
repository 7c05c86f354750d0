// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/elastic_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using testing::ElementsAre;

TEST(ElasticProcesses, HaveIdentitiesOfWhichNoneIsUsedTwice) {
  ElasticProcesses processes(place({{"a", 1}, {"b", 2}}, 3, false));
  processes.at(1).joined = processes.at(1).gone = true;
  EXPECT_EQ(processes.left(), 2);
  EXPECT_FALSE(processes.any_has_joined());
  const auto next = [&](int rank) {
    const elastic::MemberInfo& info = processes.at(rank).info;
    return processes.add({.rank = rank, .size = 3, .local_rank = info.slot, .host = info.host});
  };
  EXPECT_EQ(next(1), 4U);
  EXPECT_EQ(next(2), 5U);
  EXPECT_EQ(next(1), 6U);
  for (const elastic::MemberId id : {2, 4, 6}) EXPECT_EQ(processes.rank_of(id), 1);
  EXPECT_EQ(processes.at(1).info, (elastic::MemberInfo{6, 1, 0}));
  EXPECT_TRUE(processes.at(1).takes_part() && processes.at(1).late && !processes.at(1).joined);
  EXPECT_EQ(processes.left(), 3);
  EXPECT_EQ(processes.add({.rank = 3, .size = 4, .local_rank = 2, .host = 1}), 7U) << "a rank of its own";
  EXPECT_EQ(processes.at(3).info, (elastic::MemberInfo{7, 1, 2}));
  processes.at(3).going = true;
  EXPECT_EQ(processes.left(), 4);
  EXPECT_EQ(processes.staying(), 3);
}

TEST(ElasticProcesses, OfALostHostAreGone) {
  ElasticProcesses processes(place({{"a", 1}, {"b", 3}}, 4, false));
  processes.at(1).gone = true;
  processes.at(3).finished = true;
  const auto lost = processes.lose_host(1);
  EXPECT_THAT(lost.ranks, ElementsAre(2));
  EXPECT_EQ(lost.member, 0U);
  EXPECT_TRUE(lost.any_counts);
  EXPECT_EQ(processes.left(), 1);
}

}  // namespace
}  // namespace hora::hrun
