// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <array>
#include <cstddef>
#include <optional>

namespace hora {

/// What batches cost: each so long for itself (alpha), and so long for every byte (beta). Learnt from batches
/// that were moved, of which the fastest of each size counts: in the others somebody was late. *Engine only.*
class Pace {
 public:
  /// A batch took so long.
  void add(std::size_t bytes, Clock::duration time);

  /// How large batches should be, so that what each costs for itself is about a 64th of its time: a power of
  /// two, from 4 to 64 MiB. Nothing: that takes batches of which one is eight times as large as the other.
  [[nodiscard]] std::optional<std::size_t> batch_bytes() const;

 private:
  struct Fastest {
    double bytes = 0;
    double seconds = 0;
  };
  std::array<std::optional<Fastest>, 64> by_size_;  // in bits
};

}  // namespace hora
