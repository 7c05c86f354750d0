// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/arrivals.h"
#include "core/negotiate/asking.h"
#include "core/negotiate/outgoing_ballots.h"
#include "core/negotiate/repeated_steps.h"
#include "core/negotiate/voter.h"

#include <chrono>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace hora {

/// Merges the ballots of the ranks of a subtree, in the world group. A tensor that all these ranks have asked
/// for goes up once, however many they are. Ballots go in (`add`), and fewer come out (`take`). It does no
/// I/O and reads no clock.
///
/// Ballots of other groups, reports, and the news that a rank leaves or joins go up as they came, at once. So
/// does everything as long as one of these ranks has left or joined: it asks for nothing more, and the others
/// would wait for it here. A tensor that some ranks have asked for and others have not goes up after
/// `kMostWait`, and from then on as it comes. So rank 0 knows which ranks are missing. A request that only
/// some ranks make (`is_of_some`) goes up at once. Nothing that a rank asks for overtakes what it has asked
/// for before and then leaves or joins.
///
/// Nothing goes up twice or never, for this reason. Each asking is in one place, `steps_` or `pending_`,
/// until it is put into a ballot. It leaves that place when it is complete or its time has passed. A tensor
/// that fails while it waits here has failed for the ranks that asked for it, and is dropped. So are askings
/// from before an order was locked, as rank 0 does. Different tensors of one rank may change places. So a
/// ballot that goes up says that its ranks have heard no more verdicts than had the ranks whose askings still
/// wait here. Rank 0 must not forget a number that one of these has.
///
/// How late ranks are travels along: a ballot has an age, and names those that asked much later than the
/// first (Arrivals). *Engine only.*
class Branch {
 public:
  static constexpr std::chrono::milliseconds kMostWait{50};

  /// `ranks`: the subtree. `voter`: of this rank, in the world; it must outlive this.
  Branch(RankSet ranks, const Voter& voter) : ranks_(std::move(ranks)), voter_(voter) {}

  /// Takes a ballot that came at `now`, and whose `ranks` say for which ranks of the subtree it speaks.
  /// Throws Error(internal) if no correct rank would send it. `take` must follow: what goes up at once is
  /// there then.
  void add(Ballot ballot, TimePoint now);
  /// The ballots that are to go up now, in this order.
  [[nodiscard]] std::vector<Ballot> take(TimePoint now);
  /// The time when the oldest tensor that waits here for other ranks goes up; max: there is
  /// none. It does not tell of ballots that `take` would give at once.
  [[nodiscard]] TimePoint next();
  /// Drops what a verdict has decided. The voter must have applied this verdict already. A verdict of another
  /// group changes nothing.
  void hear(const Verdict& verdict);

 private:
  /// For one tensor.
  struct Pending {
    Arrivals arrivals;
    std::vector<Asking> askings;  // that have not gone up
    std::vector<DecisionId> ids;  // that it was called by
    bool told = false;            // some have gone up: the rest follows as it comes
    bool due = false;
  };
  using PendingByName = std::unordered_map<std::string, Pending>;

  void pass(Ballot ballot);
  bool repeats_step(const Ballot& ballot, const Arrival& arrival);
  void dissolve_step_with(const std::string& name);
  void dissolve(const std::vector<RepeatedStep>& steps);
  void add_repeat(DecisionId id, const Arrival& arrival);
  void add_request(const Request& request, const Arrival& arrival);
  PendingByName::iterator add_to(const std::string& name, const Arrival& arrival);
  void settle(PendingByName::iterator entry);
  PendingByName::iterator oldest();
  void take_steps(TimePoint now);
  void tell_old(TimePoint now);
  void tell_all(TimePoint now);
  void tell(PendingByName::iterator entry, TimePoint now);
  void finish_ballots();
  void erase(PendingByName::iterator entry);
  void drop(const std::string& name);
  void forget();

  RankSet ranks_;
  const Voter& voter_;
  std::uint64_t locked_by_ = 0;  // verdicts; ballots from before they were heard count no more
  RankSet left_;
  RankSet joined_;
  RepeatedSteps steps_;
  PendingByName pending_;
  std::unordered_map<DecisionId, PendingByName::iterator> by_id_;
  std::vector<PendingByName::iterator> due_;
  std::multimap<TimePoint, std::string> ages_;  // by when they came; some have gone since
  OutgoingBallots out_;
};

}  // namespace hora
