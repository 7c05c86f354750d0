// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/step_counter.h"

#include <algorithm>

namespace hora {
namespace {

constexpr std::uint64_t kFarMore = 16;  // as often as another decision

}  // namespace

void StepCounter::note_behind(const RankSet& places, Clock::duration time) {
  if (time <= Clock::duration::zero()) return;
  for (const auto& [first, end] : places.runs()) {
    for (auto behind = behind_.begin() + first; behind != behind_.begin() + end; ++behind)
      *behind = std::max(*behind, time);
  }
}

void StepCounter::note_behind(const std::vector<Clock::duration>& times) {
  for (std::size_t place = 0; place < behind_.size(); ++place)
    behind_[place] = std::max(behind_[place], times[place]);
}

void StepCounter::count(DecisionId repeated, std::uint64_t times, const Schedule& schedule) {
  const bool far_more_often = times > kFarMore * (marker_times_ + 1);
  if (!schedule.knows(marker_) || far_more_often) marker_ = repeated;
  if (repeated != marker_) return;
  marker_times_ = times;
  ended_.push_back({times - 1, behind_});
  std::fill(behind_.begin(), behind_.end(), Clock::duration::zero());
}

}  // namespace hora
