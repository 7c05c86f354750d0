// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/agreement.h"
#include "core/negotiate/asking.h"
#include "core/negotiate/message.h"
#include "core/negotiate/schedule.h"
#include "core/negotiate/steady_state.h"

#include <deque>
#include <list>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace hora {

/// Rank 0's memory of which member has asked for which tensor in one group. Ballots go in, verdicts come out;
/// it does no I/O and reads no clock. Members are called by their places; messages name their ranks. Members
/// that ask for the same are one voice, however many they are.
///
/// A tensor is decided once every member has asked for it, in the order in which that came true. A tensor
/// that a leaving member never asked for fails for those that did. When all have left, the verdict ends the
/// group.
///
/// A member that has joined need not ask: it takes part in operations that the others can do without it;
/// operations that they cannot do without it fail. When all have joined, that is decided like a tensor, and
/// no member has joined any more.
///
/// A member may repeat a decision by number. It may also do so when it has not heard yet that the number is
/// forgotten; so the requests that led to a decision are remembered until every member has heard the verdict
/// that forgot it.
///
/// When enough steps were equal, a verdict locks their order (`Verdict::lock`). All ranks then decide alike
/// without ballots, until they agree to end that. Requests from before a rank heard of the lock are forgotten
/// here, as every rank knows itself what it has asked for. *Engine only.*
class Coordinator {
 public:
  /// `members`: ranks, by place. `locks`: whether the order of its decisions may be locked.
  explicit Coordinator(std::vector<int> members, std::size_t capacity = 8192, bool locks = false);

  /// Takes what members ask, and have asked at `now`: members that asked sooner may be added later. Throws
  /// Error(internal) if no rank that follows the protocol would send it.
  void add(const RankSet& places, const Ballot& ballot, TimePoint now);
  /// The verdict on all that has become decidable since the last call; nothing if there is nothing to say.
  std::optional<Verdict> decide();

  /// The ranks that have left though others wait for a tensor of theirs, of which that is new since the last
  /// call.
  [[nodiscard]] std::vector<int> take_missed() { return std::exchange(missed_, {}); }

  /// A step of a training, in which every step makes the same decisions again. A value.
  struct Step {
    std::uint64_t number = 0;             ///< the first is 1, of which nothing is known
    std::vector<Clock::duration> behind;  ///< by place: the longest that others waited for its asking
  };
  /// Those that have ended since the last call.
  std::vector<Step> take_steps() { return std::exchange(steps_ended_, {}); }

  /// The last verdict has a lock, and now this was decided as it says; `behind`: by place, for how long
  /// others waited for it.
  void follow_lock(const std::vector<DecisionId>& decided, const std::vector<Clock::duration>& behind);
  /// The lock has ended, after so many decisions: all ask again for what is under way. `dear`: they had stood
  /// still for too long, compared with how long it held.
  void end_lock(std::uint64_t decisions, bool dear) { steady_state_.end_lock(decisions, dear); }
  /// Something is decided elsewhere, of which a lock would know nothing.
  void disturb() { steady_state_.disturb(); }

  /// Goes to all members with the next verdict.
  void command(TraceCommand command) { command_ = command; }
  /// How many bytes are to travel together at the most, which one of the next verdicts tells.
  void fuse_up_to(std::uint64_t bytes) { fuse_up_to_ = bytes; }
  /// These ranks have left, which the next verdict tells.
  void tell_left(const RankSet& ranks) { told_left_.add(ranks); }

  /// A tensor that some ranks have asked for and others have not. A value.
  struct Waiting {
    std::string name;
    std::string what;  ///< "allreduce float32[3,4]"
    /// Of a training, in which every step makes the same decisions again: which step this is, the first being
    /// 1. 0: the tensor is a new one.
    std::uint64_t step = 0;
    TimePoint since;
    std::vector<int> asked;    ///< ranks
    std::vector<int> missing;  ///< ranks
    std::string ranks;         ///< of its process set, as messages name them; empty: all
  };
  /// Those asked for at or before `since`, the oldest first.
  [[nodiscard]] std::vector<Waiting> waiting(TimePoint since) const;
  /// When the one that has waited longest was first asked for; TimePoint::max() if none waits.
  [[nodiscard]] TimePoint oldest() const;
  [[nodiscard]] const std::vector<int>& members() const { return members_; }

 private:
  /// Names by when they were first asked for.
  using Ages = std::list<std::pair<TimePoint, std::string>>;
  /// The requests that the members have made under one name.
  struct Pending {
    std::vector<Asking> askings;
    RankSet asked;       // all their places
    bool joins = false;  // it is a join, in which nobody stands in for anybody
    bool ready = false;
    TimePoint since;
    Ages::iterator age;
  };
  using PendingByName = std::unordered_map<std::string, Pending>;
  /// A decision that can be made: of a tensor that is pending under a name, or of one that all repeat at
  /// once, which never was.
  struct Ready {
    std::string name;
    DecisionId repeat = 0;
  };
  /// The requests that led to a decision.
  struct Remembered {
    std::vector<Voice> voices;  ///< by the name under which they ask for it again
    std::uint64_t times = 1;    ///< that it was made, those before it of the same name included
    [[nodiscard]] const std::string& name() const { return voices.front().request->name; }
    /// It was made: operations without a name are called like the next now.
    void rename();
  };

  /// The members that ask, and since when. A value.
  struct Askers {
    const RankSet& places;
    TimePoint since;
    Clock::duration behind{};  ///< the longest that others have waited for them
  };
  [[noreturn]] void refuse(const RankSet& places, const std::string& what) const;
  void ask(Askers& askers, DecisionId id);
  void ask(Askers& askers, const Request& request);
  PendingByName::iterator note_asked(const std::string& name, Askers& askers);
  PendingByName::iterator pending(const std::string& name, Askers& askers);
  void note_behind(const RankSet& places, Clock::duration time);
  [[nodiscard]] Ages::iterator age_at(TimePoint since);
  void join(const RankSet& places, const Request& request);
  void leave(const RankSet& places);
  /// Looks whether the pending tensor can be decided, or can never be.
  void settle(PendingByName::iterator entry);
  void settle_all();
  [[nodiscard]] bool complete(const Pending& pending) const;
  [[nodiscard]] std::optional<int> left_without(const Pending& pending) const;
  void erase(PendingByName::iterator entry);

  /// The requests, in full, the voice with the lowest place first.
  [[nodiscard]] std::vector<Voice> voices(const Pending& pending) const;
  void spell(const Asking& asking, std::vector<Voice>& voices) const;
  [[nodiscard]] const Request& any_asked(const Pending& pending) const;
  [[nodiscard]] bool repeated(const Pending& pending) const;
  /// By bundle: what is wrong with one of its tensors.
  [[nodiscard]] std::unordered_map<std::string, std::string> failing_bundles() const;
  Verdict::Item decide(const Ready& ready, const std::unordered_map<std::string, std::string>& failing);
  Verdict::Item decide(const Pending& pending);
  Verdict::Item repeat(DecisionId id);
  void note_repeated(DecisionId id);
  [[nodiscard]] bool all_repeat(const RankSet& places, const Ballot& ballot) const;
  [[nodiscard]] Decision decide_anew(const Pending& pending) const;
  [[nodiscard]] Decision decide_with_stand_ins(const Pending& pending) const;
  Verdict::Item number(Decision decision, const Pending& pending);
  void forget_what_all_have_heard();
  void lock(Verdict& verdict);
  [[nodiscard]] bool fits(const Pending& pending, const std::unordered_set<DecisionId>& ids) const;
  void count_step(DecisionId repeated, std::uint64_t times);
  [[nodiscard]] std::uint64_t step_of(const Pending& pending) const;
  /// Turns requests of pending tensors that were made by this number into full requests: the number is about
  /// to go.
  void spell_out(DecisionId id);

  std::vector<int> members_;
  RankSet everybody_;  // all places
  Schedule schedule_;
  std::unordered_map<DecisionId, Remembered> remembered_;
  std::deque<std::pair<std::uint64_t, DecisionId>> forgotten_;  // by the verdict that forgot it
  std::vector<std::uint64_t> heard_;                            // by place
  std::uint64_t verdicts_ = 0;

  bool locks_;
  SteadyState steady_state_;
  std::uint64_t locked_by_ = 0;  // the verdict; ballots from before it is heard count no more

  PendingByName pending_;
  Ages ages_;
  std::vector<Ready> ready_;
  std::vector<Decision> failed_;

  RankSet left_;             // places
  std::vector<int> missed_;  // ranks
  bool ended_ = false;
  TraceCommand command_ = TraceCommand::none;
  RankSet told_left_;
  std::uint64_t fuse_up_to_ = 0;
  DecisionId pacemaker_ = 0;  // the first that was repeated, until it is forgotten: each time is a step
  std::vector<Clock::duration> behind_;  // in the present one, by place
  std::vector<Step> steps_ended_;
  RankSet joined_;                      // places
  int last_joined_ = 0;                 // of them
  bool divide_by_initial_size_ = true;  // as they said
};

}  // namespace hora
