// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/communicator.h"
#include "core/backend/shm/levels.h"
#include "core/device/stepwise.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hora::shm {

/// How one rank puts the elements of all ranks together: in rank order; or, where ranks are nearer to some
/// than to others, floating-point elements level by level, as `WriteByLevels` does with many ranks. So a
/// result's bits depend neither on the way that its bytes take nor on what travels with it. *Engine only.*
class Sums {
 public:
  /// `levels`: the sizes of groups of ranks in a row; none: what the ranks' cores share, for more than
  /// `kFlat` ranks.
  Sums(Communicator communicator, const std::optional<std::vector<int>>& levels);

  static constexpr int kFlat = 8;

  /// As `kernels::reduce`, of all ranks' elements by place. Once all have met.
  void reduce(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count,
              const Reduction& reduction);
  /// Whether these are put together level by level. Once all have met.
  [[nodiscard]] bool by_levels(const Reduction& reduction);
  [[nodiscard]] const Levels& levels() const { return *levels_; }

 private:
  void reduce_block(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count,
                    Stepwise& steps);

  Communicator communicator_;
  std::optional<Levels> levels_;
  std::vector<std::byte> scratch_;  // what is between the steps
};

}  // namespace hora::shm
