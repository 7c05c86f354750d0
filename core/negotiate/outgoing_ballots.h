// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/arrivals.h"
#include "core/negotiate/asking.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace hora {

/// The ballots in which requests of a subtree go up to rank 0. Requests of the same ranks and about the same
/// age go up in one ballot. *Engine only.*
class OutgoingBallots {
 public:
  /// These ranks ask at `now` for what the arrivals are about.
  void add(const Asking& asking, const Arrivals& arrivals, TimePoint now);
  /// All ranks of the arrivals repeat these decisions.
  void add(const std::vector<DecisionId>& repeats, const Arrivals& arrivals, TimePoint now);
  /// A finished ballot, which goes up as it is after all that were finished before.
  void pass(Ballot ballot) { finished_.push_back(std::move(ballot)); }
  /// Whether requests were added and are in no finished ballot.
  [[nodiscard]] bool has_unfinished() const { return !unfinished_.empty(); }
  /// Finishes all ballots. They say that their ranks have heard no more verdicts than `most_heard`.
  void finish(std::uint64_t most_heard);
  /// The finished ballots, in this order; once.
  [[nodiscard]] std::vector<Ballot> take() { return std::exchange(finished_, {}); }
  /// Drops everything.
  void clear();

 private:
  Ballot& ballot_for(const RankSet& ranks, const Arrivals& arrivals, TimePoint now);

  /// The ranks for which a ballot speaks, and its age in milliseconds.
  using Key = std::pair<RankSet, std::int64_t>;
  std::map<Key, Ballot> unfinished_;
  std::vector<Ballot> finished_;
};

}  // namespace hora
