// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/communicator.h"
#include "core/backend/shm/peer_memory.h"

namespace hora::shm {

/// Keeps this rank from writing into the buffers of a rank that has left. A rank leaves after an abort: its
/// user has the buffers back, but another rank may still be in a call, and not know of the abort.
///
/// Protocol. `writing` and `gone` are words of each rank's block, and only that rank writes them.
///
///   writes into others' buffers                    leaves (`leave`)
///   1. own.writing = 1            (seq_cst)        a. own.gone = 1                          (seq_cst)
///   2. is any block's gone 1?     (seq_cst)        b. waits until all others' writing is 0  (seq_cst)
///   3. if none is: writes
///   4. own.writing = 0            (release)
///
/// Of 1 and a one comes first in the one order of all seq_cst accesses. If 1 does, b sees it and waits. If a
/// does, 2 sees it and nothing is written. By 4 the leaver that reads 0 also has all writes of 3 behind it. A
/// guard lives for a part of a call, so b ends soon. A writer that is dead or stopped never comes to 4. So b
/// also ends when the writer's process has ended, and after 200 ms in any case.
///
/// *Engine only.* A rank has one guard at a time.
class WriteGuard {
 public:
  explicit WriteGuard(const Communicator& communicator) : communicator_(communicator) {
    communicator_.own_block().writing.store(1);
    for (int place = 0; place < communicator_.size(); ++place)
      allowed_ = allowed_ && communicator_.block(place).gone.load() == 0;
  }
  ~WriteGuard() { communicator_.own_block().writing.store(0, std::memory_order_release); }
  WriteGuard(const WriteGuard&) = delete;
  WriteGuard& operator=(const WriteGuard&) = delete;

  /// Whether this rank may write to others' buffers, as long as this object lives.
  [[nodiscard]] bool allowed() const { return allowed_; }

 private:
  const Communicator& communicator_;
  bool allowed_ = true;
};

/// Throws Error(aborted) if a rank has left. A call checks this after its last phase; its result is complete
/// only if no rank has left by then. That all ranks arrived at the phase is not enough. A rank may arrive and
/// then leave: others then read buffers that it had given back, or did not write their part.
void throw_if_left(const Communicator& communicator);

/// Says that this rank has left, and waits until no rank that lives writes into its buffers, for at most 200
/// ms in all. After that no rank begins to write there. Only a writer that was stopped for longer than the
/// 200 ms may still end its part. `peers` tells whose process has ended; nullptr: nothing tells. A second
/// call returns at once.
void leave(const Communicator& communicator, const PeerMemory* peers) noexcept;

}  // namespace hora::shm
