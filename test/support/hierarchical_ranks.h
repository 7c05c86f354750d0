// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <functional>
#include <memory>
#include <vector>

namespace hora {

/// Ranks that are threads, as if they ran on several hosts: an arena for each host, sockets over loopback
/// between all. `host` says on which host a rank is. `reach`: whether ranks of a host reach each other's
/// private buffers. By rank.
std::vector<std::unique_ptr<Collective>> connect_hierarchical_ranks(int ranks,
                                                                    const std::function<int(int rank)>& host,
                                                                    bool reach);

}  // namespace hora
