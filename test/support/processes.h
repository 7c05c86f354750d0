// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <vector>

namespace hora {

/// Runs each rank in a process of its own; how each ended, as waitpid says.
inline std::vector<int> run_processes(int ranks, const std::function<void(int rank)>& rank_main) {
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    try {
      rank_main(rank);
    } catch (const std::exception& error) {
      fmt::print(stderr, "rank {}: {}\n", rank, error.what());
      ::_exit(1);
    }
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  std::vector<int> ends(children.size(), -1);
  for (std::size_t rank = 0; rank < children.size(); ++rank) ::waitpid(children[rank], &ends[rank], 0);
  return ends;
}

/// Leaves this process 8 GiB of address space: not enough for an arena whose regions have 16 GiB.
inline void leave_no_room_for_an_arena() {
  const rlimit limit{std::size_t{8} << 30, std::size_t{8} << 30};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
}
inline constexpr std::size_t kRegionWithoutRoom = std::size_t{16} << 30;

}  // namespace hora
