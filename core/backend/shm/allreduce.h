// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/remote_access.h"
#include "core/backend/shm/rounds.h"
#include "core/backend/shm/staged_sums.h"
#include "core/backend/shm/sums.h"
#include "core/backend/shm/write_all.h"
#include "core/backend/shm/write_by_levels.h"
#include "core/comm/collective.h"
#include "core/device/tuner.h"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace hora::shm {

/// One rank's part of an allreduce. There are three ways to move the bytes. All ranks choose the same way,
/// because all read the same mailboxes:
///
///  - inline: each rank copies its few bytes into its own inline buffer before the ranks meet, and reads the
///    inline buffers of all ranks after that. There is no second phase, as inline buffers and mailboxes
///    alternate (rank_block.h).
///  - direct: each rank reads and writes the buffers of all ranks. It uses loads and stores for buffers in
///    the arena, and PeerMemory for private buffers. Usually it uses write-all (write_all.h). In the arena it
///    may move elements level by level (write_by_levels.h), if some ranks are nearer to each other than
///    others and rank 0 has measured that this is faster.
///  - staged: pieces of all buffers travel through the stages (staged_sums.h). This way is taken if a private
///    buffer cannot be reached, or if rank 0 has measured that it is faster than PeerMemory.
///
/// A few bytes may also be inline on some ranks and in the arena on others. Elements are combined in the same
/// order in all ways (sums.h), so the bits of the result do not depend on the way. *Engine only.*
class Allreduce {
 public:
  /// `direct`: whether private memory is read and written in place, and not through the stages. `by_levels`:
  /// whether elements move level by level. Without a value, rank 0 measures both ways, and all ranks take the
  /// faster one. The arguments of rank 0 count.
  Allreduce(const Communicator& communicator, Rounds& rounds, RemoteAccess& access, Sums& sums,
            StagedSums& staged_sums, std::optional<bool> direct, std::optional<bool> by_levels);

  /// Reduces the segments into their outputs. There are at most kLocations segments, and each has the same
  /// length on all ranks.
  void run(std::span<const Segment> segments, const Reduction& reduction);

 private:
  Mailbox& open(std::span<const Segment> segments, const Reduction& reduction, std::size_t bytes);
  /// The number of ranks whose input is in their inline buffer.
  [[nodiscard]] int ranks_in_slots() const;
  void reduce_in_arena(std::span<const Segment> segments, const Reduction& reduction, std::size_t bytes);
  void reduce_in_private(std::span<const Segment> segments, const Reduction& reduction, std::size_t bytes);
  void reduce_in_slots(std::span<const Segment> segments, const Reduction& reduction);
  void reduce_mixed(std::span<const Segment> segments, const Reduction& reduction);
  [[nodiscard]] std::size_t most_inline(bool in_arena) const;

  Communicator communicator_;
  Rounds& rounds_;
  RemoteAccess& access_;
  Sums& sums_;
  StagedSums& staged_sums_;
  WriteAll write_all_;
  WriteByLevels write_by_levels_;
  Tuner private_way_;
  Tuner level_way_;
  std::vector<const void*> inputs_;  // of the present kernel call, by place
};

}  // namespace hora::shm
