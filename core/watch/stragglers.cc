// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stragglers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hora {
namespace {

constexpr int kRests = 10;
constexpr int kWorthIt = 10;                          // part of the time
constexpr std::chrono::milliseconds kLeastBehind{1};  // is as likely the system's as the rank's
constexpr std::chrono::milliseconds kLeastTime{500};

double fractional_milliseconds(Clock::duration time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

Clock::duration middle(std::vector<Clock::duration> times) {
  const auto half = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), half, times.end());
  return *half;
}

}  // namespace

std::optional<std::string> Stragglers::add(const TrainingStep& step, TimePoint now) {
  if (steps_ == 0 || members_.size() < 2) return std::nullopt;
  if (std::exchange(any_, true) == false) {
    begin_ = now;  // the first one has made connections, compiled kernels, and the like
    return std::nullopt;
  }
  behind_.push_back(step.behind);
  if (behind_.size() < static_cast<std::size_t>(steps_)) return std::nullopt;
  auto line = judge(now);
  behind_.clear();
  begin_ = now;
  return line;
}

std::optional<std::string> Stragglers::judge(TimePoint now) {
  std::vector<std::pair<Clock::duration, int>> ranks;
  for (std::size_t rank = 0; rank < members_.size(); ++rank) {
    std::vector<Clock::duration> times;
    for (const auto& step : behind_) times.push_back(step[rank]);
    ranks.emplace_back(middle(std::move(times)), static_cast<int>(rank));
  }
  std::partial_sort(ranks.begin(), ranks.begin() + 2, ranks.end(), std::greater<>());
  const auto [behind, rank] = ranks.front();
  const Clock::duration step = (now - begin_) / steps_;
  if (behind < kLeastBehind || behind * kWorthIt < step || behind < 2 * ranks[1].first) {
    slowest_ = -1;
    return std::nullopt;
  }
  if (std::exchange(slowest_, rank) != rank) slowest_since_ = begin_;
  if (now - slowest_since_ < kLeastTime) return std::nullopt;
  if (rests_ > 0 && rank == named_) {
    --rests_;
    return std::nullopt;
  }
  named_ = rank;
  rests_ = kRests - 1;
  const auto times_behind = std::count_if(behind_.begin(), behind_.end(), [rank = rank](const auto& times) {
    return std::max_element(times.begin(), times.end()) - times.begin() == rank;
  });
  return fmt::format(
      "{} holds the others up: in {} of the last {} steps it was the last, and they waited {:.1f} ms "
      "for it in the middle one, of steps of {:.1f} ms",
      describe(members_[static_cast<std::size_t>(rank)]), times_behind, steps_,
      fractional_milliseconds(behind), fractional_milliseconds(step));
}

}  // namespace hora
