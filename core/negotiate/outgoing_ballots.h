// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/arrivals.h"
#include "core/negotiate/asking.h"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace hora {

/// The ballots in which a Branch sends the requests of its subtree up to rank 0. Requests of the same ranks
/// and of about the same age share one ballot. *Engine only.*
class OutgoingBallots {
 public:
  /// Adds the request of the ranks `asking.who`. `arrivals`: when these ranks asked for it, and how late they
  /// were. `now`: the present time, from which the age of the ballot follows.
  void add(const Asking& asking, const Arrivals& arrivals, TimePoint now);
  /// Adds requests for these repeated decisions, by all ranks of the arrivals.
  void add(const std::vector<DecisionId>& repeats, const Arrivals& arrivals, TimePoint now);
  /// Adds a finished ballot. It goes up unchanged, after all ballots that were finished before.
  void pass(Ballot ballot) { finished_.push_back(std::move(ballot)); }
  /// Whether requests were added that are in no finished ballot yet.
  [[nodiscard]] bool has_unfinished() const { return !unfinished_.empty(); }
  /// Finishes all ballots. No ballot then says that its ranks have heard more verdicts than `most_heard`.
  void finish(std::uint64_t most_heard);
  /// Removes and returns the finished ballots, in the order in which they were finished.
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
