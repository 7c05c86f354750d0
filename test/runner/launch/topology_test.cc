// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/topology.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <numeric>

namespace hora::hrun {
namespace {

TEST(Topology, ListsCoresWithTheirThreadsAndNodes) {
  const std::vector<Core> expected{{{0, 1}, 0}, {{2, 3}, 0}, {{4, 5}, 1}, {{6, 7}, 1}};
  EXPECT_EQ(cores_of("numa:2 core:2 pu:2", {}), expected);
}

TEST(Topology, LeavesOutWhatMayNotBeUsed) {
  const std::vector<Core> expected{{{1}, 0}, {{4, 5}, 1}};
  EXPECT_EQ(cores_of("numa:2 core:2 pu:2", {1, 4, 5}), expected);
}

TEST(Topology, RefusesWhatDescribesNoMachine) {
  EXPECT_THROW(static_cast<void>(cores_of("no machine", {})), Error);
}

TEST(Topology, KnowsTheCpusOfThisThread) {
  cpu_set_t set;
  ASSERT_EQ(::sched_getaffinity(0, sizeof set, &set), 0);
  const auto cores = cores_here();
  const auto cpus = std::accumulate(cores.begin(), cores.end(), std::size_t{0},
                                    [](std::size_t sum, const Core& core) { return sum + core.cpus.size(); });
  EXPECT_EQ(cpus, static_cast<std::size_t>(CPU_COUNT(&set)));
  for (const auto& core : cores) {
    for (const int cpu : core.cpus) EXPECT_TRUE(CPU_ISSET(cpu, &set)) << cpu;
  }
}

}  // namespace
}  // namespace hora::hrun
