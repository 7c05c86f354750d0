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

/// One rank's part of a reducescatter: it reads its range of all inputs, and writes only its own output. Few
/// bytes go through the inline buffers. Others are read where they lie, or travel through the stages if a
/// rank's input is private and out of reach. *Engine only.*
class Reducescatter {
 public:
  Reducescatter(const Communicator& communicator, Rounds& rounds, RemoteAccess& access, Sums& sums,
                StagedSums& staged_sums)
      : communicator_(communicator),
        rounds_(rounds),
        access_(access),
        sums_(sums),
        staged_sums_(staged_sums) {}

  /// `whole.input`: the elements of all ranks. `whole.output` takes elements [begin, end) of the result.
  void run(const Segment& whole, std::size_t begin, std::size_t end, const Reduction& reduction);

 private:
  void read_inputs(std::size_t begin, std::size_t bytes);

  Communicator communicator_;
  Rounds& rounds_;
  RemoteAccess& access_;
  Sums& sums_;
  StagedSums& staged_sums_;
  std::vector<std::byte> scratch_;   // copies of private memory
  std::vector<const void*> inputs_;  // of the kernel call at hand, by place
};

}  // namespace hora::shm
