// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <hora/config.h>

namespace hora {

/// The first that ranks tell each other when they have met. Knobs that all must have alike become rank 0's in
/// `config`: ranks that cut tensors differently would mix them up. Rank 0 warns of those who have other ones,
/// and of those who were started with other arguments. All ranks call it. Throws, on all of them,
/// Error(invalid_argument) if they are of several versions of Hora; and as `exchange`.
void agree(Config& config, Control& control, const std::vector<Member>& members, TimePoint deadline);

}  // namespace hora
