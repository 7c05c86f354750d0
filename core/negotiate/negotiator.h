// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"
#include "core/comm/readiness_vote.h"
#include "core/negotiate/branch.h"
#include "core/negotiate/group_coordinators.h"
#include "core/negotiate/locked_order.h"
#include "core/negotiate/voter.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace hora {

/// One rank's part in all negotiations. It asks for tensors (a Voter for each group that the rank is in), and
/// hears which decisions to carry out. Rank 0's also has the coordinators of all groups, so there is one
/// order of all decisions. Refers to the control and the vote, which must outlive it.
///
/// Each rank carries out the decisions that concern it in that one order. So ranks that are in several groups
/// never wait for each other in a cycle: of all decisions that are not done yet, all members can do the
/// first.
///
/// In a tree (Control::position) each rank sends its ballots to its parent. A rank that has children merges
/// their ballots and its own (Branch); so does rank 0. Engines hand ballots up. Verdicts of rank 0 come down
/// by the control planes, without engines. There is no cycle of waiting, and nothing arrives in the wrong
/// order, for these reasons:
///
///   - An engine waits only in a collective, which belongs to a decision that rank 0 has announced. No engine
///     is needed for other ranks to hear of that decision. Take the first of all decisions that are not done
///     yet. All its members hear of it. Each has done all that comes before it, or can do that without
///     waiting for another member. So all members reach this collective, and it ends. So each engine returns
///     to its messages, and hands on the ballots that it has.
///   - Rank 0 announces the decisions of all groups in one order, over one path to each rank. On a path no
///     message overtakes another. A verdict skips ranks that are not members, but no two ranks hear two
///     verdicts in different orders.
///   - A rank has a verdict before the ranks below it have it. So ballots that they send after it reach a
///     Branch that knows this verdict.
///   - The ballots of one rank go up on one path, too. A Branch may exchange ballots of different ranks, and
///     different tensors of one rank. A Coordinator does not depend on their order, except for numbers that
///     are about to be forgotten (see Branch). When a rank leaves or joins, its earlier requests go first.
///
/// With a vote the world's decisions are locked once they repeat: then a rank asks and hears by LockedOrder,
/// without ballots and verdicts. *Engine only.*
class Negotiator {
 public:
  /// Begins with the world. `vote`: null if the ranks do not share memory. `capacity`: of each group's
  /// schedule.
  explicit Negotiator(Control& control, ReadinessVote* vote = nullptr, std::size_t capacity = 8192);

  /// Every rank tells its negotiator of every group, in the same order of all decisions. Numbers ascend, and
  /// are never given twice. `members`: ranks, ascending.
  void add_group(int group, const std::vector<int>& members);
  void remove_group(int group);

  /// Asks for tensors that are ready on this rank, in a group that it is in. A request to remove the
  /// group says that this rank leaves it, and comes last.
  void ask(int group, const std::vector<Request>& requests, TimePoint now);
  /// Says that this rank will ask for nothing more, in any group. Call once.
  void leave(TimePoint now);

  /// Rank 0: tells all ranks, this one too, in one of the next verdicts.
  void command(TraceCommand command);
  /// Rank 0: the most bytes that are to travel together; told in the same way.
  void fuse_up_to(std::uint64_t bytes);
  /// Rank 0: asks another rank for an account.
  void inquire(int rank);
  /// Sends a report to rank 0, also from there.
  void report(Report kind, Bytes content);
  /// Rank 0: the reports that have come since the last call, in this order.
  std::vector<ReceivedReport> take_reports() { return coordinators_.take_reports(); }

  /// The content of one verdict. A value.
  struct Heard {
    int group = kWorld;
    std::vector<Decision> decisions;  ///< to be carried out in this order
    bool end = false;                 ///< every rank has left; nothing more will be heard
    TraceCommand trace = TraceCommand::none;
    bool inquiry = false;          ///< rank 0 wants an account
    std::uint64_t fuse_up_to = 0;  ///< as in Verdict
    RankSet left = {};             ///< likewise
    std::vector<int> ended = {};   ///< likewise
  };
  /// The verdicts that are new; does not wait. Decisions of one verdict come together. `pressing`: somebody
  /// waits for what this rank has asked for. Throws Error with the loss's status when a rank is lost, and
  /// Error(internal) for messages that no correct rank would send.
  std::vector<Heard> hear(TimePoint now, bool pressing);
  /// Whether there may be more to hear at once.
  [[nodiscard]] bool has_more() const;
  /// The time to call `hear` again at the latest, if nothing wakes the engine before.
  [[nodiscard]] TimePoint next_look() const { return next_look_; }
  /// Whether this rank has answered in a locked order, and waits for the answers of others.
  [[nodiscard]] bool waits_for_others() const { return locked_.waits_for_others(); }
  /// Whether all have answered. There must be a vote.
  [[nodiscard]] bool may_go_on() { return locked_.is_complete(); }
  [[nodiscard]] bool is_locked() const { return locked_.holds(); }
  /// As LockedOrder::take_divergence.
  [[nodiscard]] std::string take_divergence() { return locked_.take_divergence(); }

  /// Rank 0: the ranks that have left although others wait for a tensor of theirs, since the last call.
  [[nodiscard]] std::vector<int> take_missed() { return coordinators_.take_missed(); }
  /// Rank 0: the steps of the world that have ended since the last call.
  std::vector<TrainingStep> take_steps() { return coordinators_.take_steps(); }
  /// Rank 0: the tensors that wait for some ranks and were asked for at or before `since`, in all groups.
  [[nodiscard]] std::vector<WaitingTensor> waiting(TimePoint since) const;
  /// Rank 0: the ranks of a group; none if there is no such group.
  [[nodiscard]] RankSet ranks_in(int group) const { return coordinators_.ranks_in(group); }
  /// Rank 0: the time when the oldest tensor was asked for; TimePoint::max() if none is pending.
  [[nodiscard]] TimePoint oldest() const;
  /// Rank 0: the ranks that have left the job, while others have not.
  [[nodiscard]] const LeavingRanks& leaving() const { return coordinators_.leaving(); }

 private:
  void cast(Ballot ballot, TimePoint now);
  void leave_group(int group, Voter& voter, bool stays, TimePoint now);
  void cast_leave(TimePoint now);
  void take(const ControlMessage& message);
  void pass_on(TimePoint now);
  void count(const Ballot& ballot, TimePoint now);

  std::optional<Heard> next_verdict(TimePoint now);
  void collect();
  std::vector<Heard> decide();
  Heard apply(const Verdict& verdict);
  std::optional<Heard> step_locked(TimePoint now, bool pressing);
  void go_on_unlocked(const LockedOrder::Ended& ended, TimePoint now);

  Control& control_;
  std::size_t capacity_;
  bool may_lock_;
  std::map<int, Voter> voters_;  // of the groups that this rank is in
  LockedOrder locked_;
  GroupCoordinators coordinators_;  // none, except on rank 0
  std::optional<Branch> branch_;    // of a rank that has children, except rank 0 of a star
  bool leaves_ = false;             // this rank leaves the job, perhaps after a lock
  std::set<int> left_;              // of voters_: the process sets that it has left
  bool had_verdict_ = false;        // in the last `hear`
  TimePoint next_look_ = TimePoint::max();
};

}  // namespace hora
