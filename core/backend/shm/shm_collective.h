// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/communicator.h"
#include "core/backend/shm/peer_memory.h"
#include "core/comm/collective.h"

#include <memory>
#include <optional>
#include <vector>

namespace hora::shm {

/// How bytes move where there are two ways; none: as turns out to be faster.
struct ShmWays {
  std::optional<bool> direct;   ///< private memory is read and written where it lies; rank 0's counts
  std::optional<bool> streams;  ///< stores into stages bypass the caches
  /// The ranks that sum first: so many in a row, and then so many; none: the ranks whose cores are near.
  std::optional<std::vector<int>> levels;
};

/// A collective of the ranks of a communicator. `peers`: how to reach private memory, by rank of the arena;
/// nullptr: not at all, then private buffers travel through the arena in pieces. The same on all ranks, but
/// for `communicator`.
std::unique_ptr<Collective> make_shm_collective(const Communicator& communicator,
                                                std::shared_ptr<PeerMemory> peers, const ShmWays& ways = {});
/// Ranks that are threads over one mapping of an arena, by rank. `access`: whether they reach each other's
/// private buffers.
std::vector<std::unique_ptr<Collective>> make_shm_group(int ranks, bool access,
                                                        std::size_t region = std::size_t{1} << 30,
                                                        const ShmWays& ways = {});

}  // namespace hora::shm
