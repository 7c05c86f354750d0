// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/circle.h"

namespace hora {

/// Keeps ranks from writing into the buffers of one that has left: after an abort the user has them back,
/// while another rank may not have heard of it and be in the middle of a call.
///
/// Protocol, all accesses seq_cst. Who writes to others' buffers says so, looks whether anybody is gone, and
/// writes only if nobody is; a little at a time. Who leaves says so, and then waits until nobody writes any
/// more. In the one order of all accesses either the writer's word comes first, and the leaver sees it and
/// waits; or the leaver's, and the writer sees it and does not write. A writer may be stopped or dead, and a
/// dead one has no time to say that it has finished, so the leaver waits for a limited time only.
///
/// *Engine only.* One at a time lives in a rank.
class Intrusion {
 public:
  explicit Intrusion(const Circle& circle) : circle_(circle) {
    circle_.own_seat().intruding.store(1);
    for (int place = 0; place < circle_.size(); ++place)
      allowed_ = allowed_ && circle_.seat(place).gone.load() == 0;
  }
  ~Intrusion() { circle_.own_seat().intruding.store(0, std::memory_order_release); }
  Intrusion(const Intrusion&) = delete;
  Intrusion& operator=(const Intrusion&) = delete;

  /// Whether this rank may write to others' buffers, as long as this object lives.
  [[nodiscard]] bool allowed() const { return allowed_; }

 private:
  const Circle& circle_;
  bool allowed_ = true;
};

/// Throws Error(aborted) if a rank has left. What a call has done is complete only if that is not so after
/// its last phase: a leaver may have arrived there before it left, and then others read buffers that it had
/// given back, or did not write their part, and all saw everybody arrive.
void throw_if_left(const Circle& circle);

/// This rank has left: when this returns nobody writes into its buffers, now or later.
void leave(const Circle& circle) noexcept;

}  // namespace hora
