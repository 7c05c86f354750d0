// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/coordinator.h"

#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace hora {

/// A report, and the rank that has sent it. A value.
struct ReceivedReport {
  int rank = 0;
  Report kind = Report::none;
  Bytes content;
};

/// The ranks that have left a job while other ranks have not. A value.
struct LeavingRanks {
  RankSet left;
  TimePoint since = TimePoint::max();  ///< when the first of them left
};

/// The coordinators of all groups, on rank 0. It gives each ballot to the coordinator of its group. It
/// returns the verdicts of all groups one after the other, so there is one order of all decisions. *Engine
/// only.*
class GroupCoordinators {
 public:
  /// `size`: the number of ranks in the world. The world must be the first group that is added.
  explicit GroupCoordinators(int size) : size_(size) {}

  /// Adds a group. `members`: ranks, ascending. Group numbers ascend, and no number is used twice. `capacity`
  /// and `locks`: as in Coordinator.
  void add_group(int group, const std::vector<int>& members, std::size_t capacity, bool locks);
  void remove_group(int group) { groups_.erase(group); }

  /// Takes a ballot that speaks for its `ranks` and came at `now`. Returns true if the ballot asks in another
  /// group than the world, because a locked order of the world must then end. Throws Error(internal) if no
  /// rank that follows the protocol would send the ballot.
  bool add(const Ballot& ballot, TimePoint now);
  /// Returns the next verdict of any group about the ballots that have come since that group's last verdict.
  /// Returns nothing if there is none. The world's verdict comes last, because it may end the job.
  std::optional<Verdict> decide();
  /// Whether ballots have come that `decide` has not looked at.
  [[nodiscard]] bool is_undecided() const;
  /// Makes `decide` look at all groups again.
  void decide_all_again();
  /// The ranks to which a verdict of this group is sent: its members without rank 0.
  [[nodiscard]] const RankSet& others_in(int group) const { return groups_.at(group).others; }

  /// The world's coordinator, for a caller that gives it something to tell all ranks. The next `decide` looks
  /// at the world.
  Coordinator& tell_world();
  /// The world's coordinator.
  [[nodiscard]] Coordinator& world() { return groups_.at(kWorld).coordinator; }

  /// The reports that have come since the last call, in the order in which they came.
  std::vector<ReceivedReport> take_reports() { return std::exchange(reports_, {}); }
  /// The ranks that left although other ranks still wait for a tensor of theirs, since the last call.
  [[nodiscard]] std::vector<int> take_missed() { return std::exchange(missed_, {}); }
  /// The steps of the world that have ended since the last call. Steps of other groups are not used, and are
  /// dropped.
  std::vector<TrainingStep> take_steps();
  /// The tensors that wait for some ranks and were asked for at or before `since`, in all groups.
  [[nodiscard]] std::vector<WaitingTensor> waiting(TimePoint since) const;
  /// The ranks of a group; none if there is no such group.
  [[nodiscard]] RankSet ranks_in(int group) const;
  /// The time when the oldest of all pending tensors was asked for; TimePoint::max() if nothing is pending.
  [[nodiscard]] TimePoint oldest() const;
  /// The ranks that have left the job, while others have not.
  [[nodiscard]] const LeavingRanks& leaving() const { return leaving_; }

 private:
  struct Group {
    Coordinator coordinator;
    RankSet others;          // the members' ranks without rank 0
    bool undecided = false;  // whether ballots have come since the last verdict
  };
  static RankSet places_in(const Group& group, const Ballot& ballot);
  void note_left(const RankSet& ranks, TimePoint now);

  int size_;
  std::map<int, Group, std::greater<>> groups_;  // the world comes last
  int next_group_ = kWorld;                      // all group numbers below it have been used
  std::vector<ReceivedReport> reports_;
  std::vector<int> missed_;
  LeavingRanks leaving_;
};

}  // namespace hora
