// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/arrivals.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace hora {

/// Decisions that some ranks of a subtree repeat together. Often these are all decisions of a training step.
/// A value.
struct RepeatedStep {
  Arrivals arrivals;
  std::vector<DecisionId> ids;  ///< ascending
};

/// The steps that some ranks of a subtree have repeated as a whole, and other ranks have not yet. A Branch
/// compares whole steps, so a step with many decisions costs as little as one decision. No two steps have a
/// decision in common. *Engine only.*
class RepeatedSteps {
 public:
  [[nodiscard]] bool empty() const { return steps_.empty(); }
  /// Adds the ranks of `arrival` to the step that has exactly the decisions `ids`. Returns false if there is
  /// no such step, or if some of these ranks repeat it already.
  bool join(const std::vector<DecisionId>& ids, const Arrival& arrival);
  /// Adds a step. No other step may have a decision of it.
  void begin(std::vector<DecisionId> ids, const Arrival& arrival);
  /// Removes and returns the steps for which `is_meant(step)` is true, in the order in which they began.
  template <typename IsMeant>
  std::vector<RepeatedStep> extract_if(const IsMeant& is_meant) {
    std::vector<RepeatedStep> extracted;
    for (auto& step : std::exchange(steps_, {}))
      (is_meant(step) ? extracted : steps_).push_back(std::move(step));
    return extracted;
  }
  /// Removes and returns the steps that may have a decision in common with `ids`, which ascend.
  std::vector<RepeatedStep> extract_overlapping(const std::vector<DecisionId>& ids);
  /// Removes and returns all steps.
  std::vector<RepeatedStep> extract_all() { return std::exchange(steps_, {}); }
  /// The time when the first ballot of the oldest step came; TimePoint::max() if there is no step.
  [[nodiscard]] TimePoint oldest() const;
  /// The smallest number of verdicts that a rank which repeats one of the steps has heard. The largest
  /// possible number if there is no step.
  [[nodiscard]] std::uint64_t fewest_heard() const;

 private:
  std::vector<RepeatedStep> steps_;
};

}  // namespace hora
