// SPDX-License-Identifier: Apache-2.0
// generations_test.cc has whole changes.
#include "runner/elastic/leader_orders.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using elastic::LeaderAction;
using elastic::LeaderMessage;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

TEST(LeaderOrders, AddTheFactsThatTheLeaderDoesNotKnow) {
  ElasticProcesses processes(place({{"a", 1}, {"b", 1}}, 2, false));
  processes.at(1).port = 5001;
  const elastic::Leader leader({});
  LeaderOrders orders(
      processes, leader, {},
      {[](int rank) { return fmt::format("(pid {})", 100 + rank); },
       [](int host, int port) { return fmt::format("host{}:{}", host, port); }, [] { return Secret{7}; }},
      TimePoint());
  const elastic::GenerationRecord record{.generation = 1, .members = {processes.at(1).info}};
  const TimePoint now{std::chrono::hours(1)};
  const auto made = orders.make({{.kind = LeaderAction::Kind::stop, .to = 2, .generation = 1},
                                 {.kind = LeaderAction::Kind::kill, .to = 1, .why = "it is stopped"},
                                 {.kind = LeaderAction::Kind::out, .to = 1, .why = "late"},
                                 {.kind = LeaderAction::Kind::record, .to = 2, .record = record},
                                 {.kind = LeaderAction::Kind::go, .to = 2, .generation = 1}},
                                {1, "rank 0 is gone"}, now, now);
  ASSERT_THAT(made.messages, SizeIs(4)) << "a kill is no message";
  EXPECT_EQ(made.messages[0].rank, 1);
  EXPECT_EQ(made.messages[0].message.lost, 1U);
  EXPECT_EQ(made.messages[0].message.why, "rank 0 is gone");
  EXPECT_EQ(made.messages[1].message.why, "late");
  EXPECT_EQ(made.messages[2].message.coordinator, "host1:5001");
  EXPECT_EQ(made.messages[2].message.secret, Secret{7});
  EXPECT_THAT(made.kills, ElementsAre(0));
  EXPECT_THAT(made.joined, ElementsAre(1));
  EXPECT_TRUE(made.formed);
  EXPECT_EQ(orders.begun(), 1U);
  EXPECT_EQ(processes.at(0).how({137, "was killed", 9}), "was ended by hrun: it is stopped");
  EXPECT_THAT(made.lines, IsEmpty()) << "the first generation";
  const auto end = orders.make({{.kind = LeaderAction::Kind::end_job, .why = "no state"}}, {}, now, now);
  EXPECT_THAT(end.lines, ElementsAre("the job cannot go on: no state"));
  EXPECT_EQ(end.end->status, kStateLost);
}

}  // namespace
}  // namespace hora::hrun
