// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <cstddef>
#include <unordered_map>
#include <vector>

namespace hora {

/// Finds out whether a training makes the same decisions in every step, in any order; then an order can be
/// locked. It assumes that a step begins with a decision that is made once in each step. If the steps are
/// then unequal, it tries another decision, which is rarer. *Engine only.*
class SteadyState {
 public:
  /// Notes that the decision of this number was made once more.
  void repeat(DecisionId id);
  /// Notes that something else than a repeated decision has happened.
  void disturb();

  /// Whether enough equal steps have followed each other.
  [[nodiscard]] bool is_steady() const { return equal_ >= needed_; }
  /// The decisions of a step; only if `is_steady`. Those that the present step has made already come first,
  /// in the order in which it made them.
  [[nodiscard]] std::vector<DecisionId> order() const;
  /// How many decisions the present step has made.
  [[nodiscard]] std::size_t made() const { return step_.size(); }

  /// Notes that the order is locked.
  void begin_lock() { locked_ = last_.size(); }
  /// Notes that the lock has ended after so many decisions. If it was too short to be worth its cost, or if
  /// `dear`, more equal steps are needed before the next lock.
  void end_lock(std::uint64_t decisions, bool dear);

 private:
  void end_step();
  void forget();
  void begin_anew(const std::vector<DecisionId>& recent);

  std::vector<DecisionId> step_;                       // the decisions of the present step so far
  std::vector<DecisionId> last_;                       // the decisions of the last whole step
  std::unordered_map<DecisionId, int> still_to_come_;  // how often each is still to come in the present step
  std::size_t locked_ = 1;                             // decisions in a step of the last lock
  int equal_ = 0;
  int most_times_ = 4;  // if a decision is made so often too many times, another step is tried
  int needed_ = 3;
};

}  // namespace hora
