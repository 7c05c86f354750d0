// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/arena.h"
#include "core/comm/world.h"

#include <hora/config.h>

namespace hora::bench {

/// The ranks' data plane, with the arena under it in view, so that the limit can be measured in the very same
/// memory.
struct Plane {
  World world;  ///< its lane is empty
  std::shared_ptr<shm::Arena> arena;
  std::unique_ptr<Collective> collective;
  std::unique_ptr<Collective> mpi;  ///< the same ranks over MPI, if that is measured
};

/// Throws Error(unavailable) if the ranks share no memory.
[[nodiscard]] Plane connect_plane(const Config& config);

/// Where the other ranks' buffers lie in this process, by rank. All ranks call it with memory from their
/// arena.
[[nodiscard]] std::vector<std::byte*> everybodys(Plane& plane, std::byte* mine);

}  // namespace hora::bench
