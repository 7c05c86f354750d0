// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/bench/options.h"
#include "test/bench/peer.h"
#include "test/bench/plane.h"

#include <hora/hora.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace hora::bench {

/// One way to reduce a buffer over the ranks, in place.
class Contender {
 public:
  virtual ~Contender() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// Room for the largest size.
  [[nodiscard]] virtual void* data() const = 0;
  virtual void run(std::size_t count) = 0;
  /// Whether a call ends on no rank before all have begun.
  [[nodiscard]] virtual bool waits_for_others() const { return true; }
  /// Whether writing the input is part of what is timed: then `produce_and_run` is called in place of `run`.
  [[nodiscard]] virtual bool produces() const { return false; }
  /// Writes elements [first, first + count) of the input.
  using Write = std::function<void(std::size_t first, std::size_t count)>;
  virtual void produce_and_run(const Write& /*write*/) {}
  /// Whether the result is that of the reduction, to the bit.
  [[nodiscard]] virtual bool is_exact() const { return true; }
};

using Contenders = std::vector<std::unique_ptr<Contender>>;

/// "arena", "limit" and "private". The plane outlives them.
[[nodiscard]] Contenders plane_contenders(Plane& plane, const Options& options);
/// "arena" and "private", by submit and wait; see list.h for the contenders of a list. The runtime outlives
/// them.
[[nodiscard]] Contenders runtime_contenders(Runtime& runtime, const Options& options);
/// "hora/mpi": Hora's collective over MPI. The plane outlives it. Throws Error(unavailable).
[[nodiscard]] std::unique_ptr<Contender> mpi_plane_contender(Plane& plane, const Config& config,
                                                             const Options& options);
/// "mpi", and of a list also "mpi each": one call for each tensor. The peer outlives them.
[[nodiscard]] Contenders peer_contenders(Peer& peer, const Options& options);

}  // namespace hora::bench
