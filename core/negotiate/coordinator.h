// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/absences.h"
#include "core/negotiate/bundle_failures.h"
#include "core/negotiate/lock_policy.h"
#include "core/negotiate/numbered_requests.h"
#include "core/negotiate/pending_tensors.h"
#include "core/negotiate/step_counter.h"
#include "core/negotiate/waiting_tensor.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hora {

/// Makes the decisions of one group, on rank 0. Ballots go in, verdicts come out. It does no I/O and reads no
/// clock. Members are called by their places; messages name their ranks. Equal requests of many members cost
/// as much as one.
///
/// A tensor is decided once every member has asked for it (PendingTensors), in the order in which tensors
/// became complete. A tensor that a leaving member never asked for fails for the members that did. When all
/// have left, the verdict ends the group. A process set that has a name is decided once its ranks have asked;
/// the verdict goes to all members nevertheless.
///
/// A member that has joined need not ask (Absences). It takes part in operations that the others can do
/// without its data; other operations fail. When all have joined, that is decided like a tensor, and then all
/// members ask again.
///
/// A member may repeat a decision by number (NumberedRequests).
///
/// When enough steps were equal, a verdict locks their order (LockPolicy). All ranks then decide alike
/// without ballots, until they agree to end that. *Engine only.*
class Coordinator {
 public:
  /// `members`: ranks, by place. `locks`: whether the order of its decisions may be locked.
  explicit Coordinator(std::vector<int> members, std::size_t capacity = 8192, bool locks = false);

  /// Takes what members ask, and have asked at `now`: members that asked sooner may be added later. Throws
  /// Error(internal) if no rank that follows the protocol would send it.
  void add(const RankSet& places, const Ballot& ballot, TimePoint now);
  /// The verdict on all that has become decidable since the last call; nothing if there is nothing to say.
  std::optional<Verdict> decide();

  /// The ranks that have left although others wait for a tensor of theirs, since the last call.
  [[nodiscard]] std::vector<int> take_missed() { return std::exchange(missed_, {}); }
  /// The steps that have ended since the last call.
  std::vector<TrainingStep> take_steps() { return steps_.take_ended(); }

  /// The last verdict has a lock, and these decisions were made as it says. `behind`: by place, the time for
  /// which others waited for the member.
  void follow_lock(const std::vector<DecisionId>& decided, const std::vector<Clock::duration>& behind);
  /// The lock has ended, as LockPolicy::end says. All ask again for what is under way.
  void end_lock(std::uint64_t decisions, bool dear) { lock_policy_.end(decisions, dear); }
  /// Something is decided in another group, so an order of this group's decisions alone cannot be locked.
  void disturb() { lock_policy_.disturb(); }

  /// Goes to all members with the next verdict.
  void command(TraceCommand command) { next_.trace = command; }
  /// The most bytes that are to travel together. The next verdict tells it.
  void fuse_up_to(std::uint64_t bytes) { next_.fuse_up_to = bytes; }
  /// These ranks have left. The next verdict tells it.
  void tell_left(const RankSet& ranks) { next_.left.add(ranks); }
  /// All members have left that group. The next verdict tells it.
  void tell_ended(int group) { next_.ended.push_back(group); }

  /// The tensors that wait for some ranks, and were asked for at or before `since`; the oldest first.
  [[nodiscard]] std::vector<WaitingTensor> waiting(TimePoint since) const;
  /// The time when the oldest tensor was first asked for; TimePoint::max() if none is pending.
  [[nodiscard]] TimePoint oldest() const { return pending_.oldest(); }
  [[nodiscard]] const std::vector<int>& members() const { return members_; }

 private:
  /// A decision that can be made: about the tensor that is pending under a name, or by number about a tensor
  /// that all members repeat at once, and so never was pending.
  struct Ready {
    std::string name;
    DecisionId repeat = 0;
  };
  /// The members that ask. A value.
  struct Askers {
    const RankSet& places;
    TimePoint since;
    Clock::duration behind{};  ///< the longest time for which others have waited for them
  };

  [[noreturn]] void refuse(const RankSet& places, const std::string& what) const;
  void ask(Askers& askers, DecisionId id);
  void ask(Askers& askers, const Request& request);
  PendingTensors::Entry note_asked(const std::string& name, Askers& askers);
  [[nodiscard]] bool all_repeat(const RankSet& places, const Ballot& ballot) const;
  void drop_what_all_know_is_forgotten();

  void settle(PendingTensors::Entry entry);
  void settle_all();
  void fail_without(const RankSet& gone, PendingTensors::Entry entry);

  [[nodiscard]] BundleFailures bundle_failures() const;
  Verdict::Item decide(const Ready& ready, const BundleFailures& failures);
  Verdict::Item decide(const PendingTensor& pending);
  Verdict::Item repeat(DecisionId id);
  void note_repeated(DecisionId id);
  [[nodiscard]] Decision decide_anew(const PendingTensor& pending) const;
  [[nodiscard]] const Request& any_request(const PendingTensor& pending) const;
  [[nodiscard]] bool repeated(const PendingTensor& pending) const;

  std::vector<int> members_;
  RankSet everybody_;  // all places
  PendingTensors pending_;
  NumberedRequests numbered_;
  Absences absences_;
  StepCounter steps_;
  LockPolicy lock_policy_;

  RankSet stay_;  // of the places that have left: those that have not left the job
  std::vector<Ready> ready_;
  std::vector<Decision> failed_;
  Verdict next_;             // for what it is to tell besides decisions
  std::vector<int> missed_;  // ranks
  bool ended_ = false;
};

}  // namespace hora
