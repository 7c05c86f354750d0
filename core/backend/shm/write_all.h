// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/remote_access.h"
#include "core/backend/shm/rounds.h"
#include "core/backend/shm/sums.h"
#include "core/backend/shm/write_guard.h"
#include "core/compose/pieces.h"

#include <vector>

namespace hora::shm {

/// One rank's part of a "write-all" allreduce: it reduces its share of all ranks' inputs and stores it into
/// all ranks' outputs. Together the ranks read every input once and write every output once, which is as
/// little as can be. Between `Rounds::meet` and a phase. If a rank has left it does nothing, and the call
/// must fail after its last phase (`throw_if_left`). *Engine only.*
class WriteAll {
 public:
  WriteAll(Communicator communicator, const Rounds& rounds, RemoteAccess& access, Sums& sums);

  /// Mailboxes say where each segment lies.
  void run(std::span<const Segment> segments, const Reduction& reduction);

 private:
  void reduce(const SegmentRange& range, const Reduction& reduction);
  void reduce_part(const SegmentRange& range, const Reduction& reduction);
  void reduce_far(const SegmentRange& range, const Reduction& reduction);

  Communicator communicator_;
  const Rounds& rounds_;
  RemoteAccess& access_;
  Sums& sums_;
  std::vector<const void*> inputs_;  // by place, of the range at hand
  std::vector<void*> outputs_;
  std::vector<std::byte> scratch_;  // copies of private memory
};

}  // namespace hora::shm
