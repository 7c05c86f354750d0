// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/links.h"
#include "core/comm/collective.h"
#include "core/comm/world.h"

#include <hora/config.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace hora::tcp {

/// How the ranks add up: see allreduce_shares.h, allreduce_ring.h and allreduce_halving.h.
enum class Algorithm : std::uint8_t { shares, ring, halving };

/// The settings of a collective over sockets. A value, the same on all ranks, but for `spins`.
struct TcpKnobs {
  /// Sums do not depend on where in a call an element lies, nor on how long the call is.
  bool deterministic = false;
  /// Always this one (where sums can travel: see PartialSum); else the one that is fastest.
  std::optional<Algorithm> algorithm;
  /// Whether what they move only goes through this machine's memory.
  bool one_host = false;
  /// Whether there is a core to spare for waiting.
  bool spins = false;
};

/// Knobs as the configuration has them. There is a core to spare if the ranks of this host, as far as they
/// see each other's processes, have as many together as they are.
[[nodiscard]] TcpKnobs knobs_from(const World& world, const Config& config);

/// Whether it is right that every one of so many ranks has connections to every other one.
[[nodiscard]] bool talks_to_all(int ranks);

/// A collective over sockets, for ranks that share no memory: few ranks are all connected when it returns, of
/// many each to those that it needs when it needs them. Throws Error(unavailable) that names the ranks that
/// do not reach each other, Error(aborted), (timeout).
std::unique_ptr<Collective> connect_tcp(const World& world, const Config& config, TimePoint deadline);

/// The collective of all ranks of these links.
std::unique_ptr<Collective> make_tcp_collective(std::shared_ptr<Links> links, const TcpKnobs& knobs);

}  // namespace hora::tcp
