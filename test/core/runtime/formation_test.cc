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
  EXPECT_TRUE(formation.is_done());
  EXPECT_EQ(formation.error(), std::nullopt);
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
    EXPECT_FALSE(formation.is_done());
    formation.cancel({1 - rank, true, "was killed by signal 9 (Killed)", {}});
    noticed.get_future().wait();
    ASSERT_TRUE(formation.error());
    EXPECT_EQ(formation.error()->code, Code::aborted);
    EXPECT_THAT(formation.error()->message, testing::HasSubstr("was killed by signal 9 (Killed)"));
  }
}

}  // namespace
}  // namespace hora
