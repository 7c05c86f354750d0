// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <cstdint>
#include <optional>

namespace hora {

/// The costs of a message in the simulated network. A value.
struct Costs {
  Clock::duration hop = std::chrono::microseconds(25);     ///< from one rank's memory to the other's
  Clock::duration message = std::chrono::microseconds(2);  ///< of the sender's time, and of the receiver's
  double byte_ns = 1.0;                                    ///< of the sender's time
};

/// How all ranks once agreed on all tensors. A value.
struct Phase {
  double latency_us = 0;       ///< from when all asked until the last one had heard of all
  std::uint64_t messages = 0;  ///< to and from the rank that had most of them
  std::uint64_t bytes = 0;     ///< the same
  double coordinator_us = 0;   ///< real CPU time of rank 0's engine
};

/// A value.
struct Outcome {
  int levels = 0;  ///< of the tree, below rank 0
  Phase cold;      ///< by name, for the first time
  Phase cached;    ///< by number; the median of some
  Phase steady;    ///< the same, if no turn takes much longer than others of its kind
  std::optional<Phase> locked;
};

/// Lets the negotiators of that many ranks agree, all in one thread, on a virtual clock that the CPU time of
/// each turn is charged to. `radix`: of the tree; 0: a star. `locks`: they share memory, too.
[[nodiscard]] Outcome simulate(int ranks, int radix, int tensors, const Costs& costs, bool locks);

}  // namespace hora
