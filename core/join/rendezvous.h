// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/join/acceptor.h"
#include "core/join/peer_list.h"
#include "core/launcher/news.h"

#include <hora/config.h>

#include <optional>

namespace hora {

/// All ranks have met: who they are, and a connection to each that this rank talks to.
struct RendezvousResult {
  PeerList peer_list;
  std::vector<std::optional<Connection>> peers;  ///< by rank; on rank 0 all others, elsewhere only rank 0
  std::optional<Acceptor> acceptor;              ///< rank 0: refuses what connects after the rendezvous
  LauncherNews news{std::nullopt};               ///< of ranks that end
};

/// Rank 0 waits for all others, the others look for rank 0 at all candidates of HORA_COORDINATOR at once.
/// Each learns where the others were seen. Throws, on every rank, Error(timeout) that names the missing
/// ranks, and Error(invalid_argument) if the ranks disagree about how many they are. Throws, on every rank,
/// Error(aborted) if one ends before all have come, also one that never came, if the launcher says so. A rank
/// that does not find rank 0 throws Error(timeout) that says how each candidate failed.
[[nodiscard]] RendezvousResult rendezvous(const Membership& membership, const Config& config,
                                          TimePoint deadline);

}  // namespace hora
