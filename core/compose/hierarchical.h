// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <memory>
#include <vector>

namespace hora {

/// Makes a collective for several hosts, some of which have several ranks. Data crosses to another host once,
/// not once for each rank.
///
/// No rank is a leader. Data is cut into slices, as many as the smallest host has ranks, and the i-th ranks
/// of all hosts move slice i between hosts. (Up to 64 KiB there is one slice.) Large data also goes in
/// chunks: a worker thread moves one chunk between hosts while the engine works on others within the host.
/// Three operations go over `world` alone, without these steps: alltoall; means of integers; and
/// reducescatter if ranks are not numbered host by host.
///
/// `hosts`: the ranks of each host, the same value on all ranks. `world`: over all these ranks. `local`: over
/// the ranks of this host, in the order of `hosts[this host]`; `allocate` is that of `local`. All ranks call
/// this. The source has the steps of each operation, and the reason why no rank waits in a ring.
std::unique_ptr<Collective> make_hierarchical(std::unique_ptr<Collective> world,
                                              std::unique_ptr<Collective> local,
                                              std::vector<std::vector<int>> hosts, int rank);

}  // namespace hora
