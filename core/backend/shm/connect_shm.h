// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/arena.h"
#include "core/backend/shm/peer_memory.h"
#include "core/comm/collective.h"
#include "core/comm/control.h"

#include <hora/config.h>

#include <memory>
#include <optional>

namespace hora {

/// What the ranks of one host share.
struct SharedHost {
  std::shared_ptr<Arena> arena;
  std::unique_ptr<PeerMemory> peers;  ///< nullptr: private memory is out of reach
};

/// Shares an arena with all other ranks, if that can be: nothing on all ranks alike if it cannot (another
/// host, another container). That is tried, not guessed: rank 0 passes the file to the others over a local
/// socket, on which both sides prove that they know the secret. Throws Error(aborted) when a rank is lost,
/// Error(timeout) at the deadline.
std::optional<SharedHost> share_host(Control& control, const Config& config, TimePoint deadline);

/// The collective of ranks that share a host, or nullptr on all ranks alike. Throws what `share_host` throws.
std::unique_ptr<Collective> connect_shm(Control& control, const Config& config, TimePoint deadline);

}  // namespace hora
