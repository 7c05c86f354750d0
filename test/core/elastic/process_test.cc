// SPDX-License-Identifier: Apache-2.0
#include "core/elastic/process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::elastic {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

constexpr TimePoint kStart = TimePoint() + milliseconds(1000);

TEST(Processes, AreMembersOfAGenerationOrCandidates) {
  Processes processes;
  for (const MemberId id : {4, 2, 9, 7, 5}) processes.add({id, static_cast<int>(id % 2), 0}, kStart);
  const GenerationRecord record{1, {{9}, {3}, {2}}, 0, false};
  EXPECT_THAT(processes.members_of(record), ElementsAre(9, 2)) << "by rank, and without who is gone";
  processes.at(5).goes = true;
  processes.at(7).killed = true;
  EXPECT_THAT(processes.candidates(record), ElementsAre(MemberInfo{4, 0, 0}));
  EXPECT_THAT(processes.on_host(1), ElementsAre(5, 7, 9));
  EXPECT_TRUE(processes.remove(9));
  EXPECT_FALSE(processes.remove(9));
  EXPECT_EQ(processes.find(9), nullptr);
}

TEST(Processes, AreEndedInTheOrderInWhichTheyFallSilent) {
  Processes processes;
  const ElasticPolicy policy{.silence = milliseconds(500), .stopped_after = milliseconds(200)};
  EXPECT_EQ(processes.first_silent_at(policy), TimePoint::max());
  processes.add({1}, kStart);
  processes.add({2}, kStart + milliseconds(100));
  EXPECT_EQ(processes.first_silent_at(policy), kStart + milliseconds(500));
  processes.at(2).stopped = kStart + milliseconds(150);
  EXPECT_EQ(processes.first_silent_at(policy), kStart + milliseconds(350));
  processes.at(2).killed = true;
  EXPECT_EQ(processes.first_silent_at(policy), kStart + milliseconds(500));
}

}  // namespace
}  // namespace hora::elastic
