// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <cstdint>
#include <string>
#include <vector>

namespace hora {

/// A tensor that some ranks have asked for and others have not, as rank 0 reports it. A value.
struct WaitingTensor {
  std::string name;
  std::string what;  ///< "allreduce float32[3,4]"
  /// The number of the training step in which the tensor waits; the first step is 1. 0: no earlier step had
  /// this tensor.
  std::uint64_t step = 0;
  TimePoint since;           ///< when the first rank asked
  std::vector<int> asked;    ///< the ranks that have asked
  std::vector<int> missing;  ///< the ranks that have not
  std::string ranks;         ///< the ranks of its process set, as messages name them; empty: all ranks
};

}  // namespace hora
