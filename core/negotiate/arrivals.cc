// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/arrivals.h"

#include <algorithm>

namespace hora {

void Arrivals::add(const Arrival& arrival) {
  if (asked.empty()) {
    *this = Arrivals(arrival);
    return;
  }
  heard = std::min(heard, arrival.heard);
  Clock::duration behind = arrival.since - since;
  if (behind < Clock::duration::zero()) {
    for (auto& other : late) other.behind -= behind;
    if (-behind >= kNotable) add_late(late, asked, -behind);
    since = arrival.since;
    behind = {};
  }
  if (behind >= kNotable) add_late(late, arrival.ranks, behind);
  for (const auto& other : arrival.late) add_late(late, other.ranks, other.behind + behind);
  asked.add(arrival.ranks);
}

void add_late(std::vector<Late>& late, const RankSet& ranks, Clock::duration behind) {
  constexpr std::size_t kMostLate = 16;  // kept when the list has twice as many
  const auto known =
      std::find_if(late.begin(), late.end(), [&](const Late& other) { return other.ranks == ranks; });
  if (known != late.end()) {
    known->behind = std::max(known->behind, behind);
    return;
  }
  late.push_back({ranks, behind});
  if (late.size() < 2 * kMostLate) return;
  std::nth_element(late.begin(), late.begin() + kMostLate, late.end(),
                   [](const Late& one, const Late& other) { return one.behind > other.behind; });
  late.resize(kMostLate);
}

}  // namespace hora
