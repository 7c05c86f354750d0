// SPDX-License-Identifier: Apache-2.0
#include "core/join/elastic_membership.h"

#include "core/join/host_ranks.h"

#include <utility>

namespace hora {

Membership membership_in(const elastic::GenerationRecord& record, elastic::MemberId id) {
  Membership membership;
  membership.generation = record.generation;
  membership.rank = record.rank_of(id);
  membership.size = static_cast<int>(record.members.size());
  membership.local_size = membership.cross_size = 0;  // to be settled
  std::vector<int> hosts;
  for (const auto& member : record.members) hosts.push_back(member.host);
  return settle_host_ranks(std::move(membership), hosts);
}

}  // namespace hora
