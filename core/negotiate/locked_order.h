// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/readiness_vote.h"
#include "core/negotiate/lockstep.h"
#include "core/negotiate/voter.h"
#include "core/negotiate/waiting_tensor.h"

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hora {

/// One rank's part in the locked order of the world's decisions: while it holds, ranks agree by a vote in
/// shared memory, without ballots and verdicts.
///
/// A rank answers how many of the next decisions in the locked order it has asked for, as soon as that is
/// one. When all have answered, the smallest of these numbers is decided, on all ranks alike. So nothing is
/// decided that a rank has not asked for in just this form.
///
/// A rank that asks for something else, leaves, or waits for long wants the lock to end. It urges the others
/// to answer, and its own answer says so. If one answer of a round says so, nothing is decided in this round,
/// and the lock ends on all ranks. Then each rank asks by ballot for the tensors that it has under way.
/// *Engine only.*
class LockedOrder {
 public:
  /// `vote`: null if the ranks do not share memory; then no order is ever locked. `voter`: of this rank, in
  /// the world. Both must outlive this.
  LockedOrder(int rank, ReadinessVote* vote, Voter& voter) : rank_(rank), vote_(vote), voter_(voter) {}

  /// Whether an order is locked.
  [[nodiscard]] bool holds() const { return lockstep_.has_value(); }
  /// Takes the lock of a verdict that the voter has applied. `leaves`: this rank wants to leave the job.
  /// Throws Error(internal) if a lock is not possible at this time.
  void begin(const Verdict& verdict, bool leaves);
  /// This rank asks for tensors. The order must be locked.
  void ask(const std::vector<Request>& requests);
  /// This rank wants the lock to end; does nothing if no order is locked. `why`: a reason that users should
  /// know; empty: there is none. The first reason counts.
  void end(std::string why) { end(std::move(why), Lockstep::End::at_once); }

  /// Decisions that follow from the answers of a round. A value.
  struct Decided {
    std::vector<DecisionId> ids;          ///< in this order
    std::vector<Clock::duration> behind;  ///< on rank 0: for how long others waited for each rank
  };
  /// Answers and decides what is possible without waiting. Nothing: it has to wait, or the lock has ended
  /// (`take_ended`). `pressing`: somebody waits for what this rank has asked for. The order must be locked.
  std::optional<Decided> step(TimePoint now, bool pressing);
  /// A lock that has ended. A value.
  struct Ended {
    std::uint64_t decisions = 0;  ///< that were made while it held
    bool dear = false;  ///< ranks stood still for long before it ended, compared with how long it held
  };
  /// The lock that has ended since the last call.
  std::optional<Ended> take_ended() { return std::exchange(ended_, std::nullopt); }

  /// Whether `step` could do something at once. The order must be locked.
  [[nodiscard]] bool has_more() const;
  /// The time when this rank has waited for so long that `step` ends the lock; TimePoint::max() if it waits
  /// for nothing. Call it after `step`, while the order is locked.
  [[nodiscard]] TimePoint wait_ends_at(TimePoint now, bool pressing);
  /// Whether this rank has answered in this round, and waits for the answers of others.
  [[nodiscard]] bool waits_for_others() const { return vote_ != nullptr && vote_->has_answered(); }
  /// Whether all have answered. There must be a vote.
  [[nodiscard]] bool is_complete() { return vote_->is_complete(); }
  /// The reason for which this rank has ended a lock, in a sentence that names the tensor and the rank; once.
  /// Empty: it has ended none.
  [[nodiscard]] std::string take_divergence() { return std::exchange(divergence_, {}); }
  /// The next tensor, if the lock is to end and waits for the answers of other ranks. An engine that is
  /// blocked does not answer.
  [[nodiscard]] std::optional<WaitingTensor> waiting() const;

 private:
  void end(std::string why, Lockstep::End end);
  [[nodiscard]] bool wants_to_answer() const;
  std::optional<Decided> answer(TimePoint now);
  std::optional<Decided> conclude(TimePoint now);
  bool ends_a_long_wait(TimePoint now, bool pressing);
  [[nodiscard]] std::chrono::milliseconds longest_wait(bool pressing) const;
  [[nodiscard]] std::vector<int> ranks_that(bool have_answered) const;

  int rank_;
  ReadinessVote* vote_;
  Voter& voter_;
  std::optional<Lockstep> lockstep_;
  TimePoint locked_since_{};               // the first round was complete
  Lockstep::End end_ = Lockstep::End::no;  // what this rank wants
  TimePoint answered_{};                   // in the present round
  TimePoint quiet_since_{};                // when this rank last got on in the lock
  std::string divergence_;
  std::optional<Ended> ended_;
};

}  // namespace hora
