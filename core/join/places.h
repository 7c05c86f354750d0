// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <hora/config.h>

#include <vector>

namespace hora {

/// Fills in the places that a launcher did not tell, from the ranks that have met. The ranks of one host
/// count locally in their order, and hosts in the order of their first ranks. Values that `config` has stay.
void settle_places(Config& config, const std::vector<Member>& members);

}  // namespace hora
