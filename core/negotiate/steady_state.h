// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <cstddef>
#include <unordered_map>
#include <vector>

namespace hora {

/// Notices that a training makes the same decisions in every step, in whatever order: then an order can be
/// locked. A step begins with a decision that is made once in it, as it seems; if steps turn out to be
/// unequal, another one is tried, that is rarer. *Engine only.*
class SteadyState {
 public:
  /// The decision of this number was made once more.
  void repeat(DecisionId id);
  /// Something else happened.
  void disturb();

  /// Whether enough equal steps have passed, one after the other.
  [[nodiscard]] bool is_steady() const { return equal_ >= needed_; }
  /// If it is steady: the decisions of a step; those that the present one has made already come first, in the
  /// order in which it made them.
  [[nodiscard]] std::vector<DecisionId> order() const;
  /// How many of them the present step has made.
  [[nodiscard]] std::size_t made() const { return step_.size(); }

  /// The order is locked.
  void begin_lock() { locked_ = last_.size(); }
  /// It is not any more; it held for so many decisions. If that was not worth it, or `dear`, it takes longer
  /// until it is steady again.
  void end_lock(std::uint64_t decisions, bool dear);

 private:
  void end_step();
  void forget();
  void begin_anew(const std::vector<DecisionId>& recent);

  std::vector<DecisionId> step_;                       // the present one, as far as it has got
  std::vector<DecisionId> last_;                       // the last whole one
  std::unordered_map<DecisionId, int> still_to_come_;  // of those of the last one, in the present one
  std::size_t locked_ = 1;                             // decisions in a step of the last lock
  int equal_ = 0;
  int most_times_ = 4;  // that something is made in what should be one step, but has not ended
  int needed_ = 3;
};

}  // namespace hora
