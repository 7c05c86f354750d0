// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <vector>

namespace hora {

/// Returns the membership with its local and cross ranks and sizes. Values that the launcher has given stay.
/// The others follow from `members`, which has all ranks of the job. Local ranks count the ranks of one host
/// in their order. Cross ranks count the hosts that have such a local rank, in the order of their first
/// ranks.
[[nodiscard]] Membership settle_host_ranks(Membership membership, const std::vector<Member>& members);

}  // namespace hora
