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

/// One rank's part in the locked order of the world's decisions. While an order is locked, ranks agree by a
/// vote in shared memory (ReadinessVote), without ballots and verdicts. Each Negotiator has one.
///
/// The vote goes in rounds. A rank answers in a round once it has asked for the next decision of the order,
/// or when it is urged. Its answer says how many of the next decisions it has asked for. When all ranks have
/// answered, the smallest of these numbers is decided, on all ranks alike. So each decision was asked for by
/// every rank in exactly this form.
///
/// A rank wants the lock to end when it asks for something else, leaves, or has waited for long. It urges the
/// others to answer, and its own answer tells them. If one answer of a round says so, this round decides
/// nothing, and the lock ends on all ranks. Then each rank asks by ballot for the tensors that it has under
/// way. *Engine only.*
class LockedOrder {
 public:
  /// `vote`: null if the ranks do not share memory; then no order is ever locked. `voter`: the voter of this
  /// rank in the world. Both must outlive this object.
  LockedOrder(int rank, ReadinessVote* vote, Voter& voter) : rank_(rank), vote_(vote), voter_(voter) {}

  /// Whether an order is locked.
  [[nodiscard]] bool holds() const { return lockstep_.has_value(); }
  /// Begins the lock of a verdict that the voter has applied. `leaves`: this rank leaves the job, so it ends
  /// the lock as soon as possible. Throws Error(internal) if a lock is not possible at this time.
  void begin(const Verdict& verdict, bool leaves);
  /// Asks for tensors of this rank. The order must be locked.
  void ask(const std::vector<Request>& requests);
  /// Makes this rank want the lock to end. Does nothing if no order is locked, or if this rank wants that
  /// already. `why`: a reason for users, or empty.
  void end(std::string why) { end(std::move(why), Lockstep::End::at_once); }

  /// The decisions of one round. A value.
  struct Decided {
    std::vector<DecisionId> ids;          ///< in the order in which they are carried out
    std::vector<Clock::duration> behind;  ///< on rank 0: for how long others waited for each rank, by rank
  };
  /// Answers in a round, and decides what is possible without waiting. Returns nothing if this rank has to
  /// wait, or if the lock has ended (`take_ended`). `pressing`: a thread waits for a tensor that this rank
  /// has asked for. The order must be locked.
  std::optional<Decided> step(TimePoint now, bool pressing);
  /// A lock that has ended. A value.
  struct Ended {
    std::uint64_t decisions = 0;  ///< the number of decisions made while it held
    bool dear = false;            ///< ranks waited for long before it ended, compared with how long it held
  };
  /// The lock that has ended since the last call; nothing if none has.
  std::optional<Ended> take_ended() { return std::exchange(ended_, std::nullopt); }

  /// Whether `step` could answer at once. The order must be locked.
  [[nodiscard]] bool has_more() const;
  /// The time at which `step` ends the lock, because this rank will then have waited for too long.
  /// TimePoint::max() if this rank waits for nothing. Call it after `step`, while the order is locked.
  [[nodiscard]] TimePoint wait_ends_at(TimePoint now, bool pressing);
  /// Whether this rank has answered in this round and waits for the answers of other ranks.
  [[nodiscard]] bool waits_for_others() const { return vote_ != nullptr && vote_->has_answered(); }
  /// Whether all ranks have answered in this round. There must be a vote.
  [[nodiscard]] bool is_complete() { return vote_->is_complete(); }
  /// The reason why this rank has ended a lock, as a sentence that names the tensor and the rank. Empty if
  /// this rank has ended no lock since the last call.
  [[nodiscard]] std::string take_divergence() { return std::exchange(divergence_, {}); }
  /// The next tensor of the order, if a rank has urged the others and this rank waits for their answers. An
  /// engine that is blocked does not answer. Nothing in all other cases.
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
  TimePoint locked_since_{};               // when the first round was complete
  Lockstep::End end_ = Lockstep::End::no;  // whether this rank wants the lock to end
  TimePoint answered_{};                   // when this rank answered in this round
  TimePoint quiet_since_{};                // since when this rank waits for a decision; zero: it does not
  std::string divergence_;
  std::optional<Ended> ended_;
};

}  // namespace hora
