// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/coordinator.h"
#include "core/negotiate/voter.h"

#include <map>
#include <utility>
#include <vector>

namespace hora {

/// One rank's seat at all negotiations: a voter for each group that it is in; rank 0's also holds the
/// coordinators of all groups, so that there is one order of all decisions. Each rank carries out those that
/// concern it in that order, and so ranks that are in several groups never wait for each other in a ring: of
/// all that is not done yet, the first is under way on all its members. Refers to the control, which must
/// outlive it. *Engine only.*
class Negotiator {
 public:
  /// Begins with the world.
  explicit Negotiator(Control& control, std::size_t capacity = 8192);

  /// Every rank tells its seat of every group, in the same order of all decisions. Numbers ascend, and are
  /// never given twice. `members`: ranks, ascending.
  void add_group(int group, const std::vector<int>& members);
  void remove_group(int group);

  /// Asks for tensors that are ready on this rank, in a group that it is in.
  void ask(int group, const std::vector<Request>& requests, TimePoint now);
  /// Says that this rank will ask for nothing more, in any group. Call once.
  void leave(TimePoint now);

  /// Rank 0: tells all ranks, this one too, in one of the next verdicts.
  void command(TraceCommand command);
  /// Rank 0: wants an account from another rank.
  void inquire(int rank);
  /// Sends a report to rank 0, also from there.
  void report(Report kind, Bytes content);
  /// A report, and from whom. A value.
  struct Told {
    int rank = 0;
    Report kind = Report::none;
    Bytes content;
  };
  /// Rank 0: the reports that have come since the last call, in this order.
  std::vector<Told> take_reports() { return std::exchange(reports_, {}); }

  /// What one verdict says. A value.
  struct Heard {
    int group = kWorld;
    std::vector<Decision> decisions;  ///< to be carried out in this order
    bool end = false;                 ///< every rank has left; nothing will be heard any more
    TraceCommand trace = TraceCommand::none;
    bool inquiry = false;  ///< rank 0 wants an account
  };
  /// Waits for news: nothing at the deadline or after Control::wake. Decisions of one verdict come together.
  /// Throws Error with the loss's status when a rank is lost, and Error(internal) for letters that no rank
  /// would send.
  std::vector<Heard> hear(TimePoint deadline);

  /// Rank 0: the steps of the world that have ended since the last call.
  std::vector<Coordinator::Step> take_steps();

  // What waits for some ranks, in all groups; known on rank 0 only. As Coordinator's.
  [[nodiscard]] std::vector<Coordinator::Waiting> waiting(TimePoint since) const;
  [[nodiscard]] TimePoint oldest() const;

 private:
  /// A coordinator and what it has to do.
  struct Chair {
    Coordinator coordinator;
    bool undecided = false;  // ballots have come since the last verdict
  };

  void cast(const Ballot& ballot, TimePoint now);
  void count(int rank, const Ballot& ballot, TimePoint now);
  bool collect(TimePoint deadline);
  void announce(const Verdict& verdict, const std::vector<int>& members);
  Heard apply(const Verdict& verdict);

  Control& control_;
  std::size_t capacity_;
  std::map<int, Voter> voters_;                  // of the groups that this rank is in
  std::map<int, Chair, std::greater<>> chairs_;  // rank 0: of all groups; the world comes last, as it ends
  std::vector<Told> reports_;
  int next_group_ = kWorld;  // all numbers below it have been given
};

}  // namespace hora
