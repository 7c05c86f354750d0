// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/steady_state.h"

#include <algorithm>
#include <utility>

namespace hora {
namespace {

constexpr int kFewTimes = 4;
constexpr int kManyTimes = 1 << 12;
constexpr int kFewestSteps = 3;
constexpr int kMostSteps = 192;
constexpr std::uint64_t kStepsThatPay = 10;  // a shorter lock was not worth its cost

bool are_alike(std::vector<DecisionId> one, std::vector<DecisionId> other) {
  std::sort(one.begin(), one.end());
  std::sort(other.begin(), other.end());
  return one == other;
}

}  // namespace

void SteadyState::repeat(DecisionId id) {
  if (!step_.empty() && id == step_.front()) end_step();
  step_.push_back(id);
  const int too_often = -(--still_to_come_[id]);
  if (too_often > 0) equal_ = 0;
  if (too_often < most_times_) return;
  most_times_ = std::min(2 * most_times_, kManyTimes);
  // The decision that began the step does not seem to come again: it belonged to another part of the program,
  // which has ended.
  begin_anew({step_.begin() + static_cast<std::ptrdiff_t>(step_.size() / 2), step_.end()});
}

void SteadyState::end_step() {
  const bool first = last_.empty();
  if (!first && !are_alike(step_, last_)) {
    last_.insert(last_.end(), step_.begin(), step_.end());
    return begin_anew(std::exchange(last_, {}));
  }
  ++equal_;
  last_ = std::exchange(step_, {});
  still_to_come_.clear();
  for (const auto id : last_) ++still_to_come_[id];
}

/// Begins a step with the rarest of the recent decisions, and with the latest of these if there are several.
void SteadyState::begin_anew(const std::vector<DecisionId>& recent) {
  forget();
  std::unordered_map<DecisionId, int> times;
  for (const auto id : recent) ++times[id];
  const auto rarest = std::min_element(recent.rbegin(), recent.rend(), [&](DecisionId one, DecisionId other) {
    return times.at(one) < times.at(other);
  });
  step_.assign(rarest.base() - 1, recent.end());
  for (const auto id : step_) --still_to_come_[id];
}

void SteadyState::disturb() {
  forget();
  most_times_ = kFewTimes;
}

void SteadyState::forget() {
  step_.clear();
  last_.clear();
  still_to_come_.clear();
  equal_ = 0;
}

std::vector<DecisionId> SteadyState::order() const {
  std::vector<DecisionId> order = step_;
  auto missing = still_to_come_;
  // If a decision comes several times in a step, its first times are those that the step has made already.
  std::vector<DecisionId> rest;
  for (auto id = last_.rbegin(); id != last_.rend(); ++id) {
    if (missing[*id]-- > 0) rest.push_back(*id);
  }
  order.insert(order.end(), rest.rbegin(), rest.rend());
  return order;
}

void SteadyState::end_lock(std::uint64_t decisions, bool dear) {
  const bool paid = !dear && decisions >= kStepsThatPay * locked_;
  needed_ = paid ? kFewestSteps : std::min(2 * needed_, kMostSteps);
  disturb();
}

}  // namespace hora
