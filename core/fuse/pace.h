// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <array>
#include <cstddef>
#include <optional>

namespace hora {

/// The cost of batches: a time for each batch itself (alpha), and a time for every byte (beta). It is learnt
/// from batches that were moved. The fastest of each size counts: in the others some rank was late. *Engine
/// only.*
class Pace {
 public:
  /// A batch took so long.
  void add(std::size_t bytes, Clock::duration time);

  /// The size that batches should have, so that alpha is about a 64th of a batch's time: a power of two, from
  /// 4 to 64 MiB. Nothing before there were two batches of which one is eight times as large as the other.
  [[nodiscard]] std::optional<std::size_t> batch_bytes() const;

 private:
  struct Fastest {
    double bytes = 0;
    double seconds = 0;
  };
  std::array<std::optional<Fastest>, 64> by_size_;  // in bits
};

}  // namespace hora
