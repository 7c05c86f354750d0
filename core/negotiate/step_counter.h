// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/negotiate/schedule.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace hora {

/// A step of a training that repeats the same decisions in every step. A value.
struct TrainingStep {
  std::uint64_t number = 0;  ///< the first step is 1
  std::vector<Clock::duration>
      behind;  ///< by place: the longest time for which other members waited for this one
};

/// Counts the steps of a training, and measures in each step how late each member of the group is. Each
/// Coordinator has one.
///
/// Users do not tell Hora where a step ends. So the first decision that is repeated marks the steps: each
/// time it is made again, a step has ended. When the schedule forgets this decision, the next repeated one
/// replaces it. A decision that is made far more often replaces it, too: programs repeat some before the
/// training, such as those that give all ranks the state. *Engine only.*
class StepCounter {
 public:
  explicit StepCounter(std::size_t places) : behind_(places) {}

  /// Notes that others have waited for the members at `places` for this time. Only the longest time of a step
  /// counts.
  void note_behind(const RankSet& places, Clock::duration time);
  /// The same for all members. `times` is by place.
  void note_behind(const std::vector<Clock::duration>& times);
  /// Notes that the decision `repeated` was made again, and has been made `times` times. `schedule`: all
  /// known decisions.
  void count(DecisionId repeated, std::uint64_t times, const Schedule& schedule);
  /// The steps that have ended since the last call.
  std::vector<TrainingStep> take_ended() { return std::exchange(ended_, {}); }

 private:
  DecisionId marker_ = 0;                // the decision that marks the steps
  std::uint64_t marker_times_ = 0;       // how often it was made
  std::vector<Clock::duration> behind_;  // in the present step, by place
  std::vector<TrainingStep> ended_;
};

}  // namespace hora
