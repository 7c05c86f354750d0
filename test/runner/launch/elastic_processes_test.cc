// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/elastic_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using testing::ElementsAre;

TEST(ElasticProcesses, HaveIdentitiesOfWhichNoneIsUsedTwice) {
  ElasticProcesses processes(place({{"a", 1}, {"b", 2}}, 3, false));
  EXPECT_THAT(processes.hosts(), ElementsAre(0, 1, 1));
  processes.at(1).joined = processes.at(1).gone = true;
  EXPECT_EQ(processes.left(), 2);
  EXPECT_FALSE(processes.any_has_joined());
  EXPECT_EQ(processes.replace(1), 4U);
  EXPECT_EQ(processes.replace(2), 5U);
  EXPECT_EQ(processes.replace(1), 6U);
  for (const elastic::MemberId id : {2, 4, 6}) EXPECT_EQ(processes.rank_of(id), 1);
  EXPECT_EQ(processes.at(1).info, (elastic::MemberInfo{6, 1, 0}));
  EXPECT_TRUE(processes.at(1).takes_part() && processes.at(1).late && !processes.at(1).joined);
  EXPECT_EQ(processes.left(), 3);
}

TEST(ElasticProcesses, OfALostHostAreGone) {
  ElasticProcesses processes(place({{"a", 1}, {"b", 3}}, 4, false));
  processes.at(1).gone = true;
  processes.at(3).finished = true;
  EXPECT_THAT(processes.lose_host(1), ElementsAre(2));
  EXPECT_EQ(processes.left(), 1);
}

}  // namespace
}  // namespace hora::hrun
