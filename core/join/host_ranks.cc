// SPDX-License-Identifier: Apache-2.0
#include "core/join/host_ranks.h"

#include "core/base/machine.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace hora {
namespace {

/// A machine: its name and the boot id of its kernel, because two machines may have the same name. Ranks in
/// different containers have different names.
using Machine = std::pair<std::string, std::string>;

Machine machine_of(const Member& member) { return {member.host, member.pid_space.substr(0, kBootIdLength)}; }

}  // namespace

Membership settle_host_ranks(Membership membership, std::span<const int> hosts) {
  std::vector<int> order;                // hosts in the order of their first ranks
  std::map<int, int> ranks_of;           // how many ranks each host has
  std::vector<int> local(hosts.size());  // local ranks, by rank
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    local[rank] = ranks_of[hosts[rank]]++;
    if (local[rank] == 0) order.push_back(hosts[rank]);
  }
  const auto own_rank = static_cast<std::size_t>(membership.rank);
  const int own = hosts[own_rank];
  if (membership.local_size == 0) {
    membership.local_rank = local[own_rank];
    membership.local_size = ranks_of[own];
  }
  if (membership.cross_size == 0) {
    const auto has_one = [&](int host) { return ranks_of[host] > local[own_rank]; };
    membership.cross_size = static_cast<int>(std::count_if(order.begin(), order.end(), has_one));
    const auto here = std::find(order.begin(), order.end(), own);
    membership.cross_rank = static_cast<int>(std::count_if(order.begin(), here, has_one));
  }
  return membership;
}

Membership settle_host_ranks(Membership membership, const std::vector<Member>& members) {
  std::map<Machine, int> numbers;
  std::vector<int> hosts;
  for (const auto& member : members)
    hosts.push_back(numbers.emplace(machine_of(member), static_cast<int>(numbers.size())).first->second);
  return settle_host_ranks(std::move(membership), hosts);
}

}  // namespace hora
