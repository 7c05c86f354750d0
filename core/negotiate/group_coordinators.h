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

/// The ranks that have left a job. A value.
struct LeavingRanks {
  RankSet left;
  TimePoint since = TimePoint::max();  ///< the first of them left
};

/// Rank 0's coordinators of all groups. It gives each ballot to the coordinator of its group, and gives out
/// the verdicts of all groups one after the other, so that there is one order of all decisions. *Engine
/// only.*
class GroupCoordinators {
 public:
  /// `size`: of the world, which is the first group to be added.
  explicit GroupCoordinators(int size) : size_(size) {}

  /// `members`: ranks, ascending. Numbers of groups ascend, and are never given twice. `capacity` and `locks`
  /// as in Coordinator.
  void add_group(int group, const std::vector<int>& members, std::size_t capacity, bool locks);
  void remove_group(int group) { groups_.erase(group); }

  /// Takes a ballot that speaks for its `ranks` and came at `now`. Returns whether it disturbs a locked order
  /// of the world's decisions: it is of another group. Throws Error(internal) if no rank that follows the
  /// protocol would send it.
  bool add(const Ballot& ballot, TimePoint now);
  /// The next verdict, of any group, on what has come since the last verdict of this group; nothing if there
  /// is none. The world's comes last, because it may end the job.
  std::optional<Verdict> decide();
  /// Whether something has come since the last verdicts.
  [[nodiscard]] bool is_undecided() const;
  /// All groups have to be looked at again.
  void decide_all_again();
  /// The ranks that have to hear a verdict of this group: its members without rank 0.
  [[nodiscard]] const RankSet& others_in(int group) const { return groups_.at(group).others; }

  /// The world's coordinator, for something that all ranks are to be told. The next `decide` looks at it.
  Coordinator& tell_world();
  /// The world's coordinator.
  [[nodiscard]] Coordinator& world() { return groups_.at(kWorld).coordinator; }

  /// The reports that have come since the last call, in this order.
  std::vector<ReceivedReport> take_reports() { return std::exchange(reports_, {}); }
  /// The ranks that have left although others wait for a tensor of theirs, since the last call.
  [[nodiscard]] std::vector<int> take_missed() { return std::exchange(missed_, {}); }
  /// The steps of the world that have ended since the last call. Steps of other groups are of no use, and
  /// dropped.
  std::vector<TrainingStep> take_steps();
  /// The tensors that wait for some ranks, in all groups, and the time of the oldest; as Coordinator's.
  [[nodiscard]] std::vector<WaitingTensor> waiting(TimePoint since) const;
  [[nodiscard]] TimePoint oldest() const;
  /// The ranks that have left the job, while others have not.
  [[nodiscard]] const LeavingRanks& leaving() const { return leaving_; }

 private:
  struct Group {
    Coordinator coordinator;
    RankSet others;          // the members' ranks without rank 0
    bool undecided = false;  // ballots have come since the last verdict
  };
  static RankSet places_in(const Group& group, const Ballot& ballot);
  void note_left(const RankSet& ranks, TimePoint now);

  int size_;
  std::map<int, Group, std::greater<>> groups_;  // the world comes last
  int next_group_ = kWorld;                      // all numbers below it have been given
  std::vector<ReceivedReport> reports_;
  std::vector<int> missed_;
  LeavingRanks leaving_;
};

}  // namespace hora
