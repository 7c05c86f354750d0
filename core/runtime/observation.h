// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/wake_up.h"
#include "core/comm/world.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/delays.h"
#include "core/runtime/job_watch.h"
#include "core/runtime/messages.h"
#include "core/runtime/rank_state.h"
#include "core/runtime/tensor_table.h"
#include "core/runtime/tracing.h"
#include "core/watch/recorder.h"

#include <hora/config.h>

#include <cstdint>
#include <vector>

namespace hora {

/// The loop's part in letting people observe a job. This rank tells rank 0 of its delays, its late messages
/// and its trace, and rank 0 tells users and the launcher of all ranks. Refers to its constructor's
/// arguments, which must outlive it. *Engine only*, except `state` and `inquire`.
class Observation {
 public:
  /// `wake_up` rings when there is something to tell.
  Observation(World& world, const Config& config, const TensorTable& table, Timeline& timeline,
              Delays& delays, Messages& messages, Negotiator& negotiator, WakeUp& wake_up);
  ~Observation();
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  [[nodiscard]] Recorder& recorder() { return recorder_; }
  [[nodiscard]] Tracing& tracing() { return tracing_; }
  /// How this rank is. Thread-safe.
  [[nodiscard]] const RankState& state() const { return state_; }

  /// Rank 0: notes a question of the launcher's; `tell` answers it. Thread-safe.
  void inquire(std::uint64_t question);

  /// Tells what is new on this rank. Returns when to call again, at the latest.
  TimePoint tell(TimePoint now);
  /// Answers rank 0's inquiry in a verdict.
  void answer_inquiry() { negotiator_.report(Report::account, encode(state_.account())); }
  /// Takes the reports that came with what this rank has just heard. Rank 0 warns of what has waited for
  /// long. Returns when to call again, at the latest.
  TimePoint hear(TimePoint now);
  /// Logs why a lock has ended, if one has, and sends the trace, if it is long.
  void end_turn();
  /// Rank 0: a step of a training has ended.
  void end_step(const TrainingStep& step, TimePoint now) { job_.end_step(step, now); }

  /// The job has failed for this reason, and these tensors were under way: leaves a dump.
  void tell_of_failure(const Status& why, const std::vector<Loan>& pending) const;
  /// The job has ended: there is no more to trace. `failed`: other ranks send no more of their trace.
  void finish(bool failed);

 private:
  World& world_;
  Delays& delays_;
  Messages& messages_;
  Negotiator& negotiator_;
  WakeUp& wake_up_;
  Recorder recorder_;
  Tracing tracing_;
  RankState state_;
  JobWatch job_;
};

}  // namespace hora
