// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/absences.h"
#include "core/negotiate/numbered_requests.h"
#include "core/negotiate/pending_tensors.h"
#include "core/negotiate/steady_state.h"

#include <cstdint>
#include <vector>

namespace hora {

/// Decides when rank 0 locks the order of a group's decisions: after enough equal steps (SteadyState), if
/// every pending tensor belongs to these steps. While the order is locked, ranks send no ballots
/// (LockedOrder). The Coordinator of the group asks it for each verdict.
///
/// A rank may send ballots before it hears of the lock. Rank 0 drops these ballots as too late. That loses
/// nothing: each rank knows what it has asked for, and asks again when the lock ends. *Engine only.*
class LockPolicy {
 public:
  /// `allowed`: whether the order may be locked at all.
  explicit LockPolicy(bool allowed) : allowed_(allowed) {}

  /// Adds a lock to the verdict that is sent next, if a lock is possible. Returns whether it has done so; the
  /// caller then drops all pending tensors. `numbered` must have counted this verdict already.
  bool lock(Verdict& verdict, const PendingTensors& pending, const NumberedRequests& numbered,
            const Absences& absences);
  /// Whether a ballot is too late, because its sender had not heard of the last lock. `heard`: how many
  /// verdicts the sender had heard.
  [[nodiscard]] bool is_too_late(std::uint64_t heard) const { return heard < locked_by_; }
  /// Notes that another group decides something, which a lock of this group's order does not cover.
  void disturb() { steady_state_.disturb(); }
  /// Notes that the lock has ended after so many decisions. `dear`: the lock cost more than it saved. The
  /// ranks waited for long before it ended, compared with how long it held.
  void end(std::uint64_t decisions, bool dear) { steady_state_.end_lock(decisions, dear); }

 private:
  bool allowed_;
  SteadyState steady_state_;
  std::uint64_t locked_by_ = 0;  // the number of the last verdict with a lock
};

}  // namespace hora
