// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/launcher/health.h"
#include "core/negotiate/negotiator.h"
#include "core/runtime/rank_state.h"
#include "core/watch/lateness.h"
#include "core/watch/stalls.h"
#include "core/watch/stragglers.h"

#include <hora/config.h>

#include <atomic>
#include <cstdint>

namespace hora {

/// Rank 0's watch over all ranks: which ranks are waited for, which are late, and how the job is. Every rank
/// has the object, but on other ranks it does nothing useful, and `look` must not be called there. Refers
/// to its constructor's arguments, which must outlive it. *Engine only*, except `inquire`.
class JobWatch {
 public:
  JobWatch(World& world, const Config& config, Negotiator& negotiator, const RankState& own);

  /// The time after which there may be something to say of what waits; 0: never.
  [[nodiscard]] std::chrono::milliseconds first_limit() const { return stalls_.first(); }

  /// Takes a report of a rank: its account, a delay that it announces, or its list of late messages. Those
  /// are sends and receives of its user that have waited for another rank for long.
  void take(const ReceivedReport& told, TimePoint now);
  /// Warns of tensors and messages that have waited for long, asks the ranks that they wait for, and ends the
  /// job after HORA_MISSING_TIMEOUT. Returns the time to look again.
  TimePoint look(TimePoint now);
  /// A step of a training has ended at `now`.
  void end_step(const TrainingStep& step, TimePoint now);

  /// Notes that the launcher asks how the job is; `question` is its number, not 0. Thread-safe.
  void inquire(std::uint64_t question) { question_ = question; }
  /// Sends the answer to the launcher (`Config::question_fd`), if there is a question.
  void answer(TimePoint now);
  /// Tells the launcher which ranks have left the job although others wait for a tensor of theirs. If such a
  /// rank then ends with an error, that is the cause of the others' errors.
  void tell_of_missed();

 private:
  [[nodiscard]] JobHealth health(TimePoint now) const;

  World& world_;
  const Config& config_;
  Negotiator& negotiator_;
  const RankState& own_;
  Stalls stalls_;
  Stragglers stragglers_;
  Lateness lateness_;                       // nobody's but on rank 0
  std::atomic<std::uint64_t> question_{0};  // its number; 0: none
};

}  // namespace hora
