// SPDX-License-Identifier: Apache-2.0
#include "core/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <fstream>
#include <limits>
#include <string>

namespace hora {
namespace {

constexpr int kNoLimit = std::numeric_limits<int>::max();

}  // namespace

CoreSet usable_cores(int pid) {
  cpu_set_t found;
  CPU_ZERO(&found);
  CoreSet cores{};
  if (::sched_getaffinity(pid, sizeof found, &found) != 0) return cores;
  for (std::size_t core = 0; core < cores.size() * 64; ++core) {
    if (CPU_ISSET(core, &found)) cores[core / 64] |= std::uint64_t{1} << core % 64;
  }
  return cores;
}

int count_cores(const CoreSet& cores) {
  int count = 0;
  for (const std::uint64_t word : cores) count += std::popcount(word);
  return count;
}

int core_quota_in(std::string_view cpu_max) {
  const std::size_t space = cpu_max.find(' ');
  if (space == std::string_view::npos) return kNoLimit;
  std::int64_t quota = 0;
  std::int64_t period = 0;
  const auto first = std::from_chars(cpu_max.data(), cpu_max.data() + space, quota);
  const auto second = std::from_chars(cpu_max.data() + space + 1, cpu_max.data() + cpu_max.size(), period);
  if (first.ec != std::errc() || second.ec != std::errc() || quota <= 0 || period <= 0) return kNoLimit;
  return static_cast<int>(std::clamp<std::int64_t>(quota / period, 1, kNoLimit));
}

int core_quota() {
  // In a container this is the container's own limit, as a control group namespace has it for its root.
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string line;
  return std::getline(file, line) ? core_quota_in(line) : kNoLimit;
}

}  // namespace hora
