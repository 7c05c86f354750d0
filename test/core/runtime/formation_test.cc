// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/formation.h"

#include "core/backend/local/local_group.h"
#include "core/join/find_membership.h"
#include "core/runtime/connect.h"
#include "test/support/tcp_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

namespace hora {
namespace {

TimePoint deadline() { return Clock::now() + std::chrono::seconds(30); }

TEST(Formation, GivesTheGenerationWithItsWorld) {
  std::promise<void> noticed;
  Formation formation(
      {{}, {}, 7}, {},
      [](const Membership& membership, Config& settings, TimePoint, const std::shared_ptr<HostMemory>&) {
        settings.fusion_threshold = 17;
        World world = local::LocalGroup(1).join(0);
        world.membership = membership;
        return world;
      },
      deadline(), nullptr, [&] { noticed.set_value(); });
  noticed.get_future().wait();
  ASSERT_TRUE(formation.outcome());
  EXPECT_EQ(formation.outcome()->status, Status());
  const Generation generation = formation.take();
  EXPECT_EQ(generation.committed, 7U);
  EXPECT_EQ(generation.config.fusion_threshold, 17U);
  EXPECT_EQ(generation.world.control->size(), 1);
}

TEST(Formation, EndsAtOnceWhenItIsCancelledBecauseAMemberHasDied) {
  const auto configs = loopback_configs(2);
  for (const int rank : {0, 1}) {
    Membership membership = membership_of(configs[static_cast<std::size_t>(rank)]);
    if (rank == 1) membership.coordinator = "127.0.0.1:1";  // where nobody is
    std::promise<void> noticed;
    Formation formation({}, membership, connect, deadline(), nullptr, [&] { noticed.set_value(); });
    EXPECT_FALSE(formation.outcome());
    formation.cancel({1 - rank, true, "was killed by signal 9 (Killed)", {}});
    noticed.get_future().wait();
    ASSERT_TRUE(formation.outcome());
    EXPECT_EQ(formation.outcome()->status.code, Code::aborted);
    EXPECT_THAT(formation.outcome()->status.message, testing::HasSubstr("was killed by signal 9 (Killed)"));
    EXPECT_THAT(formation.outcome()->unreachable, testing::IsEmpty());
  }
}

TEST(Formation, NamesTheRanksThatItCannotReach) {
  Membership membership = membership_of(loopback_configs(2)[1]);
  membership.coordinator = "127.0.0.1:1";  // where nobody is
  std::promise<void> noticed;
  Formation formation({}, membership, connect, Clock::now() + std::chrono::milliseconds(100), nullptr,
                      [&] { noticed.set_value(); });
  noticed.get_future().wait();
  ASSERT_TRUE(formation.outcome());
  EXPECT_EQ(formation.outcome()->status.code, Code::timeout);
  EXPECT_THAT(formation.outcome()->unreachable, testing::ElementsAre(0));
}

}  // namespace
}  // namespace hora
