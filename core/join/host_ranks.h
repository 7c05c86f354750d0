// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <span>
#include <vector>

namespace hora {

/// Returns the membership with its local and cross ranks and sizes. Values that the launcher has given stay.
/// The others follow from `hosts`: the host of each rank of the job, by a number. Local ranks count the ranks
/// of one host in their order. Cross ranks count the hosts that have such a local rank, in the order of their
/// first ranks.
[[nodiscard]] Membership settle_host_ranks(Membership membership, std::span<const int> hosts);
/// The same, where the hosts follow from the members.
[[nodiscard]] Membership settle_host_ranks(Membership membership, const std::vector<Member>& members);

}  // namespace hora
