// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <vector>

namespace hora {

/// The membership with local and cross ranks also where its launcher did not tell them. They follow from the
/// ranks that have met. The ranks of one host count locally in their order, and hosts in the order of their
/// first ranks.
[[nodiscard]] Membership settle_host_ranks(Membership membership, const std::vector<Member>& members);

}  // namespace hora
