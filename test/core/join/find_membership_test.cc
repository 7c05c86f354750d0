// SPDX-License-Identifier: Apache-2.0
#include "core/join/find_membership.h"

#include "test/support/tcp_ranks.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

Membership membership_found(const Config& config) {
  return find_membership(config, Clock::now() + std::chrono::seconds(20));
}

/// A rank of two that another launcher has started on several hosts.
Config launched_rank(int rank) {
  Config config;
  config.rank = rank;
  config.size = 2;
  config.local_size = config.cross_size = 0;
  config.launcher = "torchrun";
  return config;
}

TEST(FindMembership, TakesAllOfHrunsRanksFromTheSettings) {
  const Config config = loopback_configs(3)[0];
  const Membership membership = membership_found(config);
  EXPECT_EQ(membership.generation, 0U);
  EXPECT_EQ(membership.rank, 0);
  EXPECT_EQ(membership.size, 3);
  EXPECT_EQ(membership.local_size, 3);
  EXPECT_EQ(membership.coordinator, config.coordinator);
  EXPECT_EQ(membership.secret, config.secret);
  ASSERT_TRUE(membership.listener);
  EXPECT_NE(membership.listener->fd(), *config.coordinator_fd) << "the launcher's socket stays open";
}

TEST(FindMembership, RefusesADescriptorThatDoesNotListen) {
  Config config = loopback_configs(2)[0];
  config.coordinator_fd = 0;
  EXPECT_EQ(thrown([&] { static_cast<void>(membership_found(config)); }),
            (Status{Code::invalid_argument,
                    "HORA_COORDINATOR_FD=0 is not a listening socket: start the ranks with hrun"}));
}

TEST(FindMembership, OpensTheListenerOfRank0WhereTheLauncherHasOnlyAgreedOnPorts) {
  for (const int rank : {0, 1}) {
    Config config = launched_rank(rank);
    config.coordinator = "localhost:0";
    config.secret[0] = 1;
    EXPECT_EQ(static_cast<bool>(membership_found(config).listener), rank == 0);
  }
}

TEST(FindMembership, SaysWhatALauncherDoesNotTell) {
  Config config = launched_rank(1);
  EXPECT_NE(
      thrown([&] { static_cast<void>(membership_found(config)); })
          .message.find("torchrun started 2 ranks on several hosts, and does not tell them where rank 0 "
                        "is: set HORA_COORDINATOR=host:port"),
      std::string::npos);
  config.coordinator = "node1:4711";
  EXPECT_NE(
      thrown([&] {
        static_cast<void>(membership_found(config));
      }).message.find("torchrun started 2 ranks on several hosts, and they share no secret: make a file"),
      std::string::npos);
}

}  // namespace
}  // namespace hora
