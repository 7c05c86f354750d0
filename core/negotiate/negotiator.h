// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"
#include "core/comm/readiness_vote.h"
#include "core/negotiate/branch.h"
#include "core/negotiate/coordinator.h"
#include "core/negotiate/lockstep.h"
#include "core/negotiate/voter.h"

#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace hora {

/// One rank's part in all negotiations: a voter for each group that it is in; rank 0's also holds the
/// coordinators of all groups, so that there is one order of all decisions. Each rank carries out those that
/// concern it in that order. So ranks that are in several groups never wait for each other in a ring: of all
/// decisions that are not done yet, the first is under way on all its members. Refers to the control and the
/// roll call, which must outlive it.
///
/// In a tree (Control::position) everything that a rank has to say goes to its parent. All that rank 0 has
/// decided is announced down the tree. Ranks below which there are others put together what these ask for
/// (Branch), rank 0 too. Up the engines hand things on; down the control plane does it itself. Nothing is
/// waited for in a ring, and nothing comes in the wrong order, for these reasons:
///
///   - An engine only waits within collectives, each of a decision that rank 0 has announced; and to hear of
///     that needs no engine in between. Of all decisions that are not done yet take the first: all its
///     members hear of it, and have done, or will do without waiting for each other, all that comes before it
///     for them; so they come to it, and it ends. So every engine comes back to its messages, and hands on
///     what it has.
///   - Rank 0 announces decisions of all groups in one order, over one path to each rank, on which nothing
///     overtakes anything. A rank that is not a member is passed by, but no rank hears two of them the other
///     way round.
///   - A rank has a verdict before those below it, so what they ask after it comes to a Branch that knows of
///   it.
///   - What one rank says goes up on one path, too. A Branch lets what different ranks say change places, and
///     different tensors of one rank, which means nothing to a Coordinator but for numbers that are about to
///     be forgotten (see Branch). When a rank leaves or joins, its earlier requests go first.
///
/// With a roll call, the world's decisions are locked once they repeat: no ballots and no verdicts. A rank
/// answers how many of the next decisions in the locked order it has asked for, as soon as that is one. When
/// all have answered, the fewest that one is ready for are decided, on all ranks alike. So nothing is decided
/// that a rank has not asked for in just this form. A rank that asks for something else, leaves, or waits for
/// long wants the lock to end; it urges the others to answer, and answers so itself. When one of the answers
/// of a round is that, nothing is decided in it. All ranks negotiate again, each asking for the tensors that
/// it has under way. *Engine only.*
class Negotiator {
 public:
  /// Begins with the world. `capacity`: of each group's schedule.
  explicit Negotiator(Control& control, ReadinessVote* vote = nullptr, std::size_t capacity = 8192);

  /// Every rank tells its negotiator of every group, in the same order of all decisions. Numbers ascend, and
  /// are never given twice. `members`: ranks, ascending.
  void add_group(int group, const std::vector<int>& members);
  void remove_group(int group);

  /// Asks for tensors that are ready on this rank, in a group that it is in.
  void ask(int group, const std::vector<Request>& requests, TimePoint now);
  /// Says that this rank will ask for nothing more, in any group. Call once.
  void leave(TimePoint now);

  /// Rank 0: tells all ranks, this one too, in one of the next verdicts.
  void command(TraceCommand command);
  /// Rank 0: how many bytes are to travel together at the most; told in the same way.
  void fuse_up_to(std::uint64_t bytes);
  /// Rank 0: wants an account from another rank.
  void inquire(int rank);
  /// Sends a report to rank 0, also from there.
  void report(Report kind, Bytes content);
  /// A report, and the rank that has sent it. A value.
  struct Told {
    int rank = 0;
    Report kind = Report::none;
    Bytes content;
  };
  /// Rank 0: the reports that have come since the last call, in this order.
  std::vector<Told> take_reports() { return std::exchange(reports_, {}); }

  /// The content of one verdict. A value.
  struct Heard {
    int group = kWorld;
    std::vector<Decision> decisions;  ///< to be carried out in this order
    bool end = false;                 ///< every rank has left; nothing will be heard any more
    TraceCommand trace = TraceCommand::none;
    bool inquiry = false;          ///< rank 0 wants an account
    std::uint64_t fuse_up_to = 0;  ///< as in Verdict
    RankSet left = {};             ///< likewise
  };
  /// The verdicts that are new; does not wait. Decisions of one verdict come together. `pressing`: somebody
  /// waits for what this rank has asked for. Throws Error with the loss's status when a rank is lost, and
  /// Error(internal) for messages that no rank would send.
  std::vector<Heard> hear(TimePoint now, bool pressing);
  /// Whether there may be more to hear at once.
  [[nodiscard]] bool has_more() const;
  /// The time to hear at the latest, if nothing rings before.
  [[nodiscard]] TimePoint next_look() const { return next_look_; }
  /// Whether this rank has said how far it is, and waits for what others say.
  [[nodiscard]] bool waits_for_others() const { return vote_ != nullptr && vote_->has_answered(); }
  /// Whether they all have said it.
  [[nodiscard]] bool may_go_on() { return vote_->is_complete(); }
  [[nodiscard]] bool is_locked() const { return lockstep_.has_value(); }
  /// Why this rank has ended a lock, in a sentence that names the tensor and the rank; once. Empty: it has
  /// not.
  [[nodiscard]] std::string take_divergence() { return std::exchange(divergence_, {}); }

  /// Rank 0: the ranks that have left though others wait for a tensor of theirs, of which that is new since
  /// the last call.
  [[nodiscard]] std::vector<int> take_missed() { return std::exchange(missed_, {}); }
  /// Rank 0: the steps of the world that have ended since the last call.
  std::vector<TrainingStep> take_steps();

  // The tensors that wait for some ranks, in all groups; known on rank 0 only. As Coordinator's.
  [[nodiscard]] std::vector<WaitingTensor> waiting(TimePoint since) const;
  [[nodiscard]] TimePoint oldest() const;
  /// Rank 0: the ranks that have left the job, and since when the first of them has; while others have not.
  struct Leaving {
    RankSet left;
    TimePoint since = TimePoint::max();
  };
  [[nodiscard]] const Leaving& leaving() const { return leaving_; }

 private:
  /// A coordinator and what it has to do.
  struct GroupCoordinator {
    Coordinator coordinator;
    RankSet others;          // the members' ranks, but for rank 0
    bool undecided = false;  // ballots have come since the last verdict
  };

  void decide_soon();
  void lock(const Verdict& verdict);
  void ask_in_lock(const std::vector<Request>& requests);
  std::optional<Heard> step(TimePoint now, bool pressing);
  std::optional<Heard> answer(TimePoint now);
  bool grows_impatient(TimePoint now, bool pressing);
  void end_lock_because(std::string why, Lockstep::End end = Lockstep::End::at_once);
  void look_again(TimePoint now, bool pressing);
  [[nodiscard]] std::chrono::milliseconds patience(bool pressing) const;
  [[nodiscard]] std::optional<WaitingTensor> waiting_for_answers() const;
  std::optional<Heard> decide_locked(TimePoint now);
  void end_lock(TimePoint now, bool after_waiting);
  void cast_leave(TimePoint now);
  [[nodiscard]] std::vector<int> silent_ranks() const;

  void cast(Ballot ballot, TimePoint now);
  void take(const ControlMessage& message);
  void pass_on(TimePoint now);
  void count(const Ballot& ballot, TimePoint now);
  void note_left(const RankSet& ranks, TimePoint now);
  std::optional<Heard> next_verdict(TimePoint now);
  void collect();
  std::vector<Heard> decide();
  [[nodiscard]] bool is_undecided() const;
  Heard apply(const Verdict& verdict);

  Control& control_;
  std::size_t capacity_;
  std::map<int, Voter> voters_;  // of the groups that this rank is in
  std::map<int, GroupCoordinator, std::greater<>>
      coordinators_;              // rank 0: of all groups; the world comes last, as it ends
  std::optional<Branch> branch_;  // of a rank that others are below, but for a star's rank 0
  ReadinessVote* vote_;
  std::optional<Lockstep> lockstep_;
  TimePoint locked_since_{};
  Lockstep::End end_ = Lockstep::End::no;  // what this rank wants
  bool leaves_ = false;                    // and then leaves
  bool left_others_ = false;               // it has left the process sets
  TimePoint answered_{};                   // in the present round
  TimePoint quiet_since_{};                // when this rank last got on in the lock
  TimePoint next_look_ = TimePoint::max();
  std::vector<int> missed_;  // rank 0: see take_missed
  std::string divergence_;
  bool had_verdict_ = false;
  std::vector<Told> reports_;
  Leaving leaving_;
  int next_group_ = kWorld;  // all numbers below it have been given
};

}  // namespace hora
