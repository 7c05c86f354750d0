// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <memory>
#include <vector>

namespace hora {

/// A collective for several hosts with several ranks each, made of one of all ranks and one within each host:
/// data for another host goes there once, not once for each rank. `world` is over all these ranks, `local`
/// over those of this host, in the order of `hosts[this host]`; `hosts` has the ranks of each host, the same
/// on all of them. All ranks call it. Memory comes from `local`.
std::unique_ptr<Collective> make_hierarchical(std::unique_ptr<Collective> world,
                                              std::unique_ptr<Collective> local,
                                              std::vector<std::vector<int>> hosts, int rank);

}  // namespace hora
