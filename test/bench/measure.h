// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "test/bench/contenders.h"

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

namespace hora::bench {

/// The ranks of a measurement, and how they tell each other figures outside of what is timed.
struct Group {
  int rank = 0;
  int ranks = 1;
  /// Whether all ranks read the same clock; then a call takes from the last rank's begin to the last one's
  /// end, else as long as on its slowest rank.
  bool one_clock = true;
  std::function<void()> barrier;
  /// Every rank's figures, one rank's after the other's. All bring equally many.
  std::function<std::vector<double>(std::span<const double>)> gather;
};

/// One contender at one size. A value.
struct Figure {
  double seconds = 0;  ///< median over the iterations of all blocks
  double p99 = 0;      ///< that which 99 of 100 iterations do not exceed
  double longest = 0;
  double least = 0;  ///< smallest and largest median of a block
  double most = 0;
  std::size_t wrong = 0;  ///< elements, over all iterations and ranks
};

/// One size. A value.
struct Row {
  std::size_t bytes = 0;
  std::size_t count = 0;
  std::vector<Figure> figures;  ///< by contender
};

/// The contenders take turns, block by block, so that each meets the same weather. Before each call every
/// rank writes its whole input anew; after it the whole result is checked. All ranks call it; all get the
/// same row.
[[nodiscard]] Row measure(const Contenders& contenders, const Group& group, const Options& options,
                          std::size_t bytes);

}  // namespace hora::bench
