// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <hora/config.h>

#include <vector>

namespace hora {

/// Fills in what a launcher did not tell, from who has met: the ranks of one host count locally in their
/// order, and hosts in the order of their first ranks. What `config` has stays.
void settle_places(Config& config, const std::vector<Member>& members);

}  // namespace hora
