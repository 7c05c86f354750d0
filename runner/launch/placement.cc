// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/placement.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace hora::hrun {
namespace {

/// How many ranks each host gets within its slots, and how many are left over.
std::vector<int> fill_slots(const std::vector<HostSlots>& hosts, int& ranks) {
  std::vector<int> counts;
  for (const auto& host : hosts) {
    counts.push_back(std::min(ranks, host.slots));
    ranks -= counts.back();
  }
  return counts;
}

/// One more for each host in turn, until all ranks have one.
void fill_beyond_slots(const std::vector<HostSlots>& hosts, std::vector<int>& counts, int ranks) {
  while (ranks > 0) {
    const int before = ranks;
    for (std::size_t i = 0; i < hosts.size() && ranks > 0; ++i) {
      if (hosts[i].most != 0 && counts[i] >= hosts[i].most) continue;
      ++counts[i];
      --ranks;
    }
    if (ranks == before) {
      const int all = std::accumulate(counts.begin(), counts.end(), 0);
      throw Error(
          Code::invalid_argument,
          fmt::format("-np {} is more than the max_slots of the hosts, which are {}", all + ranks, all));
    }
  }
}

RankPlacement placement_of(const std::vector<int>& counts, std::size_t host, int local_rank, int first,
                           int size) {
  const auto has_one = [&](int count) { return count > local_rank; };
  const auto here = counts.begin() + static_cast<std::ptrdiff_t>(host);
  RankPlacement placement;
  placement.rank = first + local_rank;
  placement.size = size;
  placement.local_rank = local_rank;
  placement.local_size = counts[host];
  placement.cross_rank = static_cast<int>(std::count_if(counts.begin(), here, has_one));
  placement.cross_size = static_cast<int>(std::count_if(counts.begin(), counts.end(), has_one));
  placement.host = static_cast<int>(std::count_if(counts.begin(), here, [](int count) { return count > 0; }));
  return placement;
}

}  // namespace

std::vector<HostShare> place(const std::vector<HostSlots>& hosts, int ranks, bool oversubscribe) {
  int left = ranks;
  std::vector<int> counts = fill_slots(hosts, left);
  if (left > 0 && !oversubscribe) {
    throw Error(
        Code::invalid_argument,
        fmt::format(
            "-np {} is more than the slots of the hosts, which are {}; --oversubscribe starts as many "
            "all the same",
            ranks, ranks - left));
  }
  fill_beyond_slots(hosts, counts, left);
  std::vector<HostShare> shares;
  int first = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    if (counts[i] == 0) continue;
    HostShare& share = shares.emplace_back(HostShare{hosts[i].host, {}});
    for (int local = 0; local < counts[i]; ++local)
      share.placements.push_back(placement_of(counts, i, local, first, ranks));
    first += counts[i];
  }
  return shares;
}

}  // namespace hora::hrun
