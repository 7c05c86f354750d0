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

/// The loop's part in making the job observable. Each rank reports its delays, its late messages and its
/// trace to rank 0. Rank 0 reports all ranks to users (log, timeline) and to the launcher. Refers to its
/// constructor's arguments, which must outlive it. *Engine only*, except `state` and `inquire`.
class Observation {
 public:
  /// `wake_up` is rung when `tell` has a new delay, late message or question to handle.
  Observation(World& world, const Config& config, const TensorTable& table, Timeline& timeline,
              Delays& delays, Messages& messages, Negotiator& negotiator, WakeUp& wake_up);
  ~Observation();
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;

  [[nodiscard]] Recorder& recorder() { return recorder_; }
  [[nodiscard]] Tracing& tracing() { return tracing_; }
  /// The state of this rank, for dumps and answers. Thread-safe.
  [[nodiscard]] const RankState& state() const { return state_; }

  /// Rank 0: notes that the launcher asks how the job is. `question` is the number of that question, not 0.
  /// The next `tell` answers it. Thread-safe.
  void inquire(std::uint64_t question);

  /// Reports to rank 0 what has changed on this rank. Rank 0 also answers the launcher's question. Returns
  /// the latest time for the next call.
  TimePoint tell(TimePoint now);
  /// Reports the account of this rank to rank 0, which has asked for it in a verdict (`Verdict::inquiry`).
  void answer_inquiry() { negotiator_.report(Report::account, encode(state_.account())); }
  /// Handles the reports that came with the last `Negotiator::hear`. Rank 0 also warns of tensors and
  /// messages that have waited for long. Returns the latest time for the next call.
  TimePoint hear(TimePoint now);
  /// Ends a turn of the loop. Logs why a locked order has ended, if one has. Sends the trace, if it is long
  /// or old.
  void end_turn();
  /// Rank 0: notes that a step of the training has ended at `now`.
  void end_step(const TrainingStep& step, TimePoint now) { job_.end_step(step, now); }

  /// Writes a dump, because the job has failed with the status `why`. `pending`: the tensors under way.
  void tell_of_failure(const Status& why, const std::vector<Loan>& pending) const;
  /// Ends the trace, because the job has ended. `failed`: it has ended with an error, so rank 0 waits for no
  /// more traces of other ranks.
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
