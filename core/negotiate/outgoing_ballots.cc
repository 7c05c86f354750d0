// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/outgoing_ballots.h"

#include <algorithm>

namespace hora {

void OutgoingBallots::add(const Asking& asking, const Arrivals& arrivals, TimePoint now) {
  Ballot& ballot = ballot_for(asking.who, arrivals, now);
  if (asking.repeat != 0) {
    ballot.repeats.push_back(asking.repeat);
  } else {
    ballot.requests.push_back(*asking.request);
  }
}

void OutgoingBallots::add(const std::vector<DecisionId>& repeats, const Arrivals& arrivals, TimePoint now) {
  auto& all = ballot_for(arrivals.asked, arrivals, now).repeats;
  all.insert(all.end(), repeats.begin(), repeats.end());
}

/// The ballot for requests of these ranks. It has one age, so older requests of the same ranks go into
/// another ballot.
Ballot& OutgoingBallots::ballot_for(const RankSet& ranks, const Arrivals& arrivals, TimePoint now) {
  using std::chrono::milliseconds;
  const Clock::duration age = std::max(now - arrivals.since, Clock::duration::zero());
  const auto [found, fresh] =
      unfinished_.try_emplace({ranks, std::chrono::duration_cast<milliseconds>(age).count()});
  Ballot& ballot = found->second;
  if (fresh) {
    ballot.ranks = ranks;
    ballot.heard = arrivals.heard;
  }
  ballot.heard = std::min(ballot.heard, arrivals.heard);
  ballot.age = std::max(ballot.age, age);
  for (const auto& late : arrivals.late) {
    RankSet own = late.ranks.common(ranks);
    if (!own.empty()) add_late(ballot.late, own, late.behind);
  }
  return ballot;
}

void OutgoingBallots::finish(std::uint64_t most_heard) {
  // Several ballots may speak for one rank. The first must not say that the rank has heard more than the
  // other ballots assume.
  for (const auto& [key, ballot] : unfinished_) most_heard = std::min(most_heard, ballot.heard);
  for (auto& [key, ballot] : unfinished_) {
    ballot.heard = most_heard;
    std::sort(ballot.repeats.begin(), ballot.repeats.end());
    finished_.push_back(std::move(ballot));
  }
  unfinished_.clear();
}

void OutgoingBallots::clear() {
  unfinished_.clear();
  finished_.clear();
}

}  // namespace hora
