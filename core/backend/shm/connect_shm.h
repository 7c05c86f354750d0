// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/arena.h"
#include "core/backend/shm/peer_memory.h"
#include "core/comm/world.h"

#include <hora/config.h>

#include <memory>
#include <optional>
#include <vector>

namespace hora::shm {

/// The memory that the ranks of one host share.
struct SharedHost {
  std::shared_ptr<Arena> arena;
  std::unique_ptr<PeerMemory> peers;  ///< nullptr: private memory is out of reach
};

/// The ranks that share memory, and the memory that this rank shares.
struct SharedHosts {
  std::vector<std::vector<int>> ranks;  ///< by host, each ascending, hosts by their lowest ranks
  std::optional<SharedHost> own;  ///< none if this rank is alone; in the arena a rank is its place there
};

/// Finds out which ranks share a host, all hosts at once, and lets them share an arena. All ranks call it and
/// know of all hosts. A trial, not a guess, finds the ranks that share one. Of the ranks that may (the same
/// running system, network namespace and user) the lowest passes the arena's file to the others. It does so
/// over a local socket, on which both sides prove that they know the secret. The ranks that could map the
/// file are a host, and any other rank is one by itself. Throws Error(aborted) when a rank is lost,
/// Error(timeout) at the deadline.
SharedHosts share_hosts(const World& world, const Config& config, TimePoint deadline);

}  // namespace hora::shm
