// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/remote_access.h"
#include "core/backend/shm/rounds.h"
#include "core/backend/shm/staged_sums.h"
#include "core/backend/shm/sums.h"
#include "core/comm/collective.h"

#include <cstddef>
#include <vector>

namespace hora::shm {

/// One rank's part of a reducescatter. It reads its own range from the inputs of all ranks, and writes only
/// its own output. Few bytes go through the inline buffers. Larger inputs are read in place. They travel
/// through the stages if an input is private memory that cannot be reached. *Engine only.*
class Reducescatter {
 public:
  Reducescatter(const Communicator& communicator, Rounds& rounds, RemoteAccess& access, Sums& sums,
                StagedSums& staged_sums)
      : communicator_(communicator),
        rounds_(rounds),
        access_(access),
        sums_(sums),
        staged_sums_(staged_sums) {}

  /// Reduces elements [begin, end) of the inputs into `whole.output`, which has only these elements.
  /// `whole.input` has the elements for all ranks.
  void run(const Segment& whole, std::size_t begin, std::size_t end, const Reduction& reduction);

 private:
  void read_inputs(std::size_t begin, std::size_t bytes);

  Communicator communicator_;
  Rounds& rounds_;
  RemoteAccess& access_;
  Sums& sums_;
  StagedSums& staged_sums_;
  std::vector<std::byte> scratch_;   // copies of inputs in private memory
  std::vector<const void*> inputs_;  // of the present kernel call, by place
};

}  // namespace hora::shm
