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

Membership settle_host_ranks(Membership membership, const std::vector<Member>& members) {
  std::vector<Machine> order;              // in the order of their first ranks
  std::map<Machine, int> ranks_of;         // how many ranks each machine has
  std::vector<int> local(members.size());  // local ranks, by rank
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const auto machine = machine_of(members[rank]);
    local[rank] = ranks_of[machine]++;
    if (local[rank] == 0) order.push_back(machine);
  }
  const auto own_rank = static_cast<std::size_t>(membership.rank);
  const auto own = machine_of(members[own_rank]);
  if (membership.local_size == 0) {
    membership.local_rank = local[own_rank];
    membership.local_size = ranks_of[own];
  }
  if (membership.cross_size == 0) {
    const auto has_one = [&](const Machine& machine) { return ranks_of[machine] > local[own_rank]; };
    membership.cross_size = static_cast<int>(std::count_if(order.begin(), order.end(), has_one));
    const auto here = std::find(order.begin(), order.end(), own);
    membership.cross_rank = static_cast<int>(std::count_if(order.begin(), here, has_one));
  }
  return membership;
}

}  // namespace hora
