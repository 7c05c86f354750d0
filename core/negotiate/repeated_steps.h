// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/arrivals.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace hora {

/// Decisions that ranks of a subtree repeat together, as a whole step of a model often is. A value.
struct RepeatedStep {
  Arrivals arrivals;
  std::vector<DecisionId> ids;  ///< ascending
};

/// The steps that some ranks of a subtree repeat as a whole, while others have not yet. Many decisions cost
/// as much as one, because whole steps are compared. No two steps have a decision in common. *Engine only.*
class RepeatedSteps {
 public:
  [[nodiscard]] bool empty() const { return steps_.empty(); }
  /// Adds the ranks to the step that has exactly these decisions. False: there is none, or they repeat it
  /// already.
  bool join(const std::vector<DecisionId>& ids, const Arrival& arrival);
  /// Begins a step, which has no decision of another step.
  void begin(std::vector<DecisionId> ids, const Arrival& arrival);
  /// Removes and returns the steps for which `is_meant(step)` is true, in the order in which they began.
  template <typename IsMeant>
  std::vector<RepeatedStep> extract_if(const IsMeant& is_meant) {
    std::vector<RepeatedStep> extracted;
    for (auto& step : std::exchange(steps_, {}))
      (is_meant(step) ? extracted : steps_).push_back(std::move(step));
    return extracted;
  }
  /// The same, for the steps that may have a decision in common with these, which ascend.
  std::vector<RepeatedStep> extract_overlapping(const std::vector<DecisionId>& ids);
  /// The same, for all.
  std::vector<RepeatedStep> extract_all() { return std::exchange(steps_, {}); }
  /// The time when the first ballot of the oldest step came; TimePoint::max() if there is no step.
  [[nodiscard]] TimePoint oldest() const;
  /// The fewest verdicts that a rank has heard that repeats one of the steps; the largest number if there is
  /// no step.
  [[nodiscard]] std::uint64_t fewest_heard() const;

 private:
  std::vector<RepeatedStep> steps_;
};

}  // namespace hora
