// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/repeated_steps.h"

#include <algorithm>
#include <limits>

namespace hora {

bool RepeatedSteps::join(const std::vector<DecisionId>& ids, const Arrival& arrival) {
  const auto same =
      std::find_if(steps_.begin(), steps_.end(), [&](const RepeatedStep& step) { return step.ids == ids; });
  if (same == steps_.end() || same->arrivals.asked.intersects(arrival.ranks)) return false;
  same->arrivals.add(arrival);
  return true;
}

void RepeatedSteps::begin(std::vector<DecisionId> ids, const Arrival& arrival) {
  steps_.push_back({Arrivals(arrival), std::move(ids)});
}

std::vector<RepeatedStep> RepeatedSteps::extract_overlapping(const std::vector<DecisionId>& ids) {
  return extract_if([&](const RepeatedStep& step) {
    return step.ids.front() <= ids.back() && ids.front() <= step.ids.back();
  });
}

TimePoint RepeatedSteps::oldest() const {
  TimePoint oldest = TimePoint::max();
  for (const auto& step : steps_) oldest = std::min(oldest, step.arrivals.came);
  return oldest;
}

std::uint64_t RepeatedSteps::fewest_heard() const {
  std::uint64_t fewest = std::numeric_limits<std::uint64_t>::max();
  for (const auto& step : steps_) fewest = std::min(fewest, step.arrivals.heard);
  return fewest;
}

}  // namespace hora
