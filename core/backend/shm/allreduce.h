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

/// One rank's part of an allreduce. There are three ways to move bytes. All ranks choose alike, because all
/// see all mailboxes:
///
///  - inline buffers: a few bytes are copied into the own inline buffer before the ranks meet, and read by
///  all after it. There
///    is no second phase, as inline buffers and mailboxes alternate (rank_block.h).
///  - direct: every rank reads and writes the buffers of all, in the arena by loads and stores, private ones
///    through PeerMemory. Either by write-all (write_all.h); or, in the arena, level by level
///    (write_by_levels.h), where some ranks are nearer to each other than others and rank 0 finds that to be
///    faster.
///  - staged: pieces of all travel through the stages (staged_sums.h). If a rank's buffer is private and out
///    of reach; or where that is faster than PeerMemory, which rank 0 finds out.
///
/// Elements are put together in the same order in all of them (sums.h), so the result's bits do not depend on
/// the way. *Engine only.*
class Allreduce {
 public:
  /// `direct`: whether private memory is read and written where it lies. `by_levels`: whether elements move
  /// level by level. None: the faster way, by trial. Rank 0's count.
  Allreduce(const Communicator& communicator, Rounds& rounds, RemoteAccess& access, Sums& sums,
            StagedSums& staged_sums, std::optional<bool> direct, std::optional<bool> by_levels);

  /// At most kLocations segments, as long on all ranks.
  void run(std::span<const Segment> segments, const Reduction& reduction);

 private:
  Mailbox& open(std::span<const Segment> segments, const Reduction& reduction, std::size_t bytes);
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
  std::vector<const void*> inputs_;  // of the kernel call at hand, by place
};

}  // namespace hora::shm
