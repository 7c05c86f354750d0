// SPDX-License-Identifier: Apache-2.0
#include "core/watch/lateness.h"

#include <algorithm>
#include <limits>

namespace hora {
namespace {

constexpr std::chrono::seconds kRateOf{10};
constexpr std::chrono::microseconds kMostBehind{std::numeric_limits<std::uint32_t>::max()};

std::uint32_t in_microseconds(Clock::duration time) {
  const auto whole = std::chrono::duration_cast<std::chrono::microseconds>(time);
  return static_cast<std::uint32_t>(std::clamp(whole, std::chrono::microseconds(0), kMostBehind).count());
}

}  // namespace

Lateness::Lateness(int ranks)
    : ranks_(static_cast<std::size_t>(ranks)), behind_(kSteps * static_cast<std::size_t>(ranks)) {}

void Lateness::add(const TrainingStep& step, TimePoint now) {
  ++steps_;
  const std::size_t at = newest();
  const auto latest = std::max_element(step.behind.begin(), step.behind.end());
  for (std::size_t rank = 0; rank < ranks_; ++rank) behind(at, rank) = in_microseconds(step.behind[rank]);
  last_[at] =
      latest->count() == 0 ? -1 : static_cast<std::int32_t>(std::distance(step.behind.begin(), latest));
  ended_[at] = now;
}

Lateness::OfRank Lateness::of(int rank) const {
  const std::size_t count = kept();
  if (count == 0) return {};
  std::array<std::uint32_t, kSteps> times{};
  for (std::size_t step = 0; step < count; ++step) times[step] = behind(step, static_cast<std::size_t>(rank));
  std::sort(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(count));
  const auto ranked = [&](std::size_t percent) {
    return std::chrono::microseconds(times[(count * percent + 99) / 100 - 1]);
  };
  const auto last = std::count(last_.begin(), last_.begin() + static_cast<std::ptrdiff_t>(count), rank);
  return {ranked(50), ranked(99), static_cast<double>(last) / static_cast<double>(count)};
}

double Lateness::rate() const {
  const std::size_t count = kept();
  if (count < 2) return 0;
  const auto end_before = [&](std::size_t back) { return ended_[(newest() + kSteps - back) % kSteps]; };
  std::size_t back = 1;
  while (back + 1 < count && ended() - end_before(back + 1) <= kRateOf) ++back;
  const double time = std::chrono::duration<double>(ended() - end_before(back)).count();
  return time > 0 ? static_cast<double>(back) / time : 0;
}

}  // namespace hora
