// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/tree_links.h"

#include "core/join/address_book.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace hora::tcp {
namespace {

TEST(ConnectEdges, GivesEachRankItsParentAndItsChildrenButForRank0) {
  constexpr int kRanks = 12;
  const auto configs = tree_configs(kRanks, 3);
  auto worlds = connect_tcp_ranks(configs);
  run_ranks(kRanks, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    std::vector<int> found;
    connect_tree_links(worlds[at], configs[at], Clock::now() + configs[at].start_timeout,
                       [&](const TreeLink& tree_link) { found.push_back(tree_link.member.rank); });
    std::sort(found.begin(), found.end());
    const TreePosition& position = worlds[at].control->position();
    std::vector<int> expected;
    if (rank != 0) expected = position.children;
    if (position.parent != 0) expected.insert(expected.begin(), position.parent);
    EXPECT_EQ(found, expected) << "rank " << rank;
  });
  run_ranks(kRanks, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
}

TEST(ConnectEdges, EndsWhenARankFailsMeanwhile) {
  constexpr int kRanks = 4;  // a chain
  const auto configs = tree_configs(kRanks, 1);
  auto worlds = connect_tcp_ranks(configs);
  AddressBook listens;  // as long as the test: rank 3 is not refused
  const auto ignore = [](const TreeLink&) {};
  run_ranks(kRanks, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    auto& world = worlds[at];
    const TimePoint deadline = Clock::now() + configs[at].start_timeout;
    if (rank == 2) {
      listens = tell_where(world, configs[at], deadline);
      world.control->fail({Code::unavailable, "no more sockets"});
    } else if (rank == 0) {
      connect_tree_links(world, configs[at], deadline, ignore);
    } else {
      try {
        connect_tree_links(world, configs[at], deadline, ignore);
        ADD_FAILURE() << "rank " << rank << " waits for rank 2";
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find("failed: no more sockets"), std::string::npos)
            << error.what();
      }
    }
  });
  run_ranks(kRanks, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
}

TEST(ConnectEdges, AllHearWhichRankDidNotGetThroughToItsParent) {
  constexpr int kRanks = 4;  // a chain
  const auto configs = tree_configs(kRanks, 1);
  auto worlds = connect_tcp_ranks(configs);
  AddressBook listens;  // as long as the test: rank 3's call is taken, and never answered
  const auto ignore = [](const TreeLink&) {};
  const auto unreachable_pair_in = [&](int rank, TimePoint deadline) {
    const auto at = static_cast<std::size_t>(rank);
    try {
      connect_tree_links(worlds[at], configs[at], deadline, ignore);
    } catch (const Error& error) {
      return error.status();
    }
    return Status{};
  };
  run_ranks(kRanks, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    const TimePoint deadline = Clock::now() + configs[at].start_timeout;
    if (rank == 2) {
      listens = tell_where(worlds[at], configs[at], deadline);
    } else if (rank == 3) {
      const Status unreachable_pair = unreachable_pair_in(rank, Clock::now() + std::chrono::seconds(4));
      EXPECT_EQ(unreachable_pair.code, Code::unavailable);
      EXPECT_NE(unreachable_pair.message.find("rank 3"), std::string::npos) << unreachable_pair.message;
      EXPECT_NE(unreachable_pair.message.find("rank 2"), std::string::npos) << unreachable_pair.message;
      worlds[at].control->fail(unreachable_pair);
    } else {
      const Status heard = unreachable_pair_in(rank, deadline);
      EXPECT_EQ(heard.message.find("rank 3") != std::string::npos, rank == 1) << heard.message;
    }
  });
  run_ranks(kRanks, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
}

}  // namespace
}  // namespace hora::tcp
