// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/negotiate/step_counter.h"

#include <optional>
#include <string>
#include <vector>

namespace hora {

/// Looks for the rank that holds the others up, over so many steps of a training at a time. *Engine only*, on
/// rank 0.
class Stragglers {
 public:
  /// `steps`: how many; 0: never looks.
  Stragglers(int steps, const std::vector<Member>& members) : steps_(steps), members_(members) {}

  /// A step that has ended at `now`. The answer names a rank for which the others have waited a tenth of the
  /// time or more, in the middle of the steps. They must have waited at least twice as long for it as for any
  /// other, for half a second at least: in a shorter time it may be the system that runs something else. That
  /// is not said again before ten times as many steps, unless of another rank.
  std::optional<std::string> add(const TrainingStep& step, TimePoint now);

 private:
  [[nodiscard]] std::optional<std::string> judge(TimePoint now);

  int steps_;
  const std::vector<Member>& members_;
  bool any_ = false;                                  // step has been seen
  std::vector<std::vector<Clock::duration>> behind_;  // by step, of each rank
  TimePoint begin_;                                   // of the first of them
  int slowest_ = -1;                                  // the others wait for it
  TimePoint slowest_since_;
  int named_ = -1;
  int rests_ = 0;  // looks until the rank may be named again
};

}  // namespace hora
