// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/absences.h"
#include "core/negotiate/numbered_requests.h"
#include "core/negotiate/pending_tensors.h"
#include "core/negotiate/steady_state.h"

#include <cstdint>
#include <vector>

namespace hora {

/// Says when rank 0 locks the order of a group's decisions: after enough equal steps (SteadyState), if
/// nothing is under way that does not belong to a step. While the order is locked, ranks send no ballots
/// (LockedOrder).
///
/// A rank may send ballots before it hears of the lock. They come too late: each rank knows itself what it
/// has asked for, and asks again when the lock ends. *Engine only.*
class LockPolicy {
 public:
  /// `allowed`: whether the order may be locked at all.
  explicit LockPolicy(bool allowed) : allowed_(allowed) {}

  /// Looks at the verdict that goes out next. Adds a lock to it if that is possible, and returns whether it
  /// has done so. Then nothing is pending any more. `numbered` has counted this verdict.
  bool lock(Verdict& verdict, const PendingTensors& pending, const NumberedRequests& numbered,
            const Absences& absences);
  /// Whether a ballot is too late, whose sender has heard this number of verdicts.
  [[nodiscard]] bool is_too_late(std::uint64_t heard) const { return heard < locked_by_; }
  /// Another group decides something, which a lock of this group's order would not cover.
  void disturb() { steady_state_.disturb(); }
  /// The lock has ended after so many decisions. `dear`: the ranks stood still for long before it ended,
  /// compared with how long it held.
  void end(std::uint64_t decisions, bool dear) { steady_state_.end_lock(decisions, dear); }

 private:
  bool allowed_;
  SteadyState steady_state_;
  std::uint64_t locked_by_ = 0;  // the number of the last verdict with a lock
};

}  // namespace hora
