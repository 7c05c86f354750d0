// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <vector>

namespace hora {

/// The membership with the places that its launcher did not tell, which follow from the ranks that have met.
/// The ranks of one host count locally in their order, and hosts in the order of their first ranks.
[[nodiscard]] Membership settle_places(Membership membership, const std::vector<Member>& members);

}  // namespace hora
