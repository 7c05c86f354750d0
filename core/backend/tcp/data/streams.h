// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <hora/config.h>

#include <cstddef>

namespace hora::tcp {

/// How many sockets two ranks share, for data. The same on all ranks, whose members are.
[[nodiscard]] std::size_t streams_between(const Config& config, const std::vector<Member>& members);

}  // namespace hora::tcp
