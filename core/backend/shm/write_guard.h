// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/communicator.h"

namespace hora::shm {

/// Keeps ranks from writing into the buffers of a rank that has left. After an abort the user has the buffers
/// back, while another rank may not have heard of it and be in a call.
///
/// Protocol, all accesses seq_cst. A rank that writes to others' buffers says so and looks whether any rank
/// is gone. It writes only if none is; a little at a time. A rank that leaves says so, and then waits until
/// no rank writes any more. In the one order of all accesses one of the two stores comes first. If it is the
/// writer's, the leaver sees it and waits; if it is the leaver's, the writer sees it and does not write. A
/// writer may be stopped or dead. A dead writer has no time to say that it has finished, so the leaver waits
/// for a limited time only.
///
/// *Engine only.* One at a time lives in a rank.
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

/// Throws Error(aborted) if a rank has left. The result of a call is complete only if no rank has left when
/// its last phase is over. A leaver may have arrived there before it left. Then others read buffers that it
/// had given back, or did not write their part, and all saw every rank arrive.
void throw_if_left(const Communicator& communicator);

/// This rank has left: when this returns nobody writes into its buffers, now or later.
void leave(const Communicator& communicator) noexcept;

}  // namespace hora::shm
