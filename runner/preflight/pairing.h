// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace hora::hrun {

/// How many rounds it takes until each of `players` has met each other one, once.
[[nodiscard]] int rounds_of(int players);

/// The player that a player meets in a round; none, if it has a rest. The circle method: the last one stays,
/// the others go round. With an odd number of players, one of them rests in each round. A pure function.
[[nodiscard]] std::optional<int> partner_in(int round, int player, int players);

}  // namespace hora::hrun
