// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/communicator.h"
#include "core/backend/shm/peer_memory.h"
#include "core/comm/world.h"

#include <hora/config.h>

#include <memory>
#include <optional>
#include <vector>

namespace hora::shm {

/// The ranks of one host, and the memory that they share.
struct SharedHost {
  Communicator communicator;          ///< of the ranks of the host, in their order
  std::shared_ptr<PeerMemory> peers;  ///< by rank of the arena; nullptr: private memory is out of reach
};

/// The ranks that share memory, and the memory that this rank shares.
struct SharedHosts {
  std::vector<std::vector<int>> ranks;  ///< by host, each ascending, hosts by their lowest ranks
  std::optional<SharedHost> own;        ///< none if this rank is alone
};

/// Finds out which ranks share a host, all hosts at once, and lets them share an arena. All ranks call it and
/// know of all hosts. A trial, not a guess, finds the ranks that share one. Of the ranks that may (the same
/// running system, network namespace and user) the lowest passes the arena's file to the others. It does so
/// over a local socket, on which both sides prove that they know the secret. The ranks that could map the
/// file are a host, and any other rank is one by itself.
///
/// `world.host_memory` is that of the former generation of the job. Where ranks of a host have kept an arena,
/// they go on with it, on rank blocks that no rank of the former generation looks at. The lowest of them
/// passes the file to ranks that do not have it. Such a rank gets a part of the arena that no process has
/// had, or one whose process has certainly ended. Without room for it all get a new arena. Throws
/// Error(aborted) when a rank is lost, Error(timeout) at the deadline.
SharedHosts share_hosts(World& world, const Config& config, TimePoint deadline);

}  // namespace hora::shm
