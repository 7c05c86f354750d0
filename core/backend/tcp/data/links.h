// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data_socket.h"
#include "core/comm/world.h"

#include <hora/config.h>

#include <memory>
#include <span>

namespace hora::tcp {

/// One of the connections to a rank, and the keys for the heads of what goes over it. *Engine only.*
struct DataLine {
  DataSocket socket;
  SessionKeys heads;
};

/// Data connections to the other ranks of a job, made when they are first needed. *Engine only*, except
/// `abort`.
class Links {
 public:
  virtual ~Links() = default;

  [[nodiscard]] virtual int rank() const = 0;  ///< in the world
  [[nodiscard]] virtual int ranks() const = 0;

  /// Connections to these ranks of the world; every one of them calls this with us in its list, in the same
  /// call of the same collective. Our own rank in the list and one that is there twice do no harm. Returns at
  /// once when they exist. Blocks; throws Error(unavailable) that names who cannot reach whom, at which
  /// address and port, and how it failed; what `abort` said after that.
  virtual void require(std::span<const int> peers) = 0;
  /// The lines to a peer that was required; as many, in the same order, at both ends.
  [[nodiscard]] virtual std::span<DataLine* const> lines(int peer) const = 0;

  /// Shuts all sockets down, and wakes a blocked require; the descriptors stay open. Any thread, idempotent:
  /// the first status counts.
  virtual void abort(const Status& why) noexcept = 0;
};

/// Tells the others where this rank listens, and learns where they do; connects nobody. `members`: as the
/// rendezvous has found them. All ranks call it. Throws Error(aborted), (timeout), (unavailable), and
/// (invalid_argument) for a HORA_NETWORK that selects nothing.
[[nodiscard]] std::shared_ptr<Links> make_links(const World& world, const Config& config, TimePoint deadline);

}  // namespace hora::tcp
