// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/tcp_collective.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

TEST(ConnectTcp, ManyRanksReachEachOther) {
  const int ranks = 6;
  const auto configs = loopback_configs(ranks);
  auto worlds = connect_tcp_ranks(configs);
  run_ranks(ranks, [&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    connect_tcp(worlds[at], configs[at], Clock::now() + std::chrono::seconds(20))->barrier();
  });
  run_ranks(ranks, [&](int rank) { worlds[static_cast<std::size_t>(rank)].control.reset(); });
}

}  // namespace
}  // namespace hora::tcp
