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

/// Rank 0's watch over all ranks: who is waited for, who is late, and how the job is. On the other ranks it
/// has nothing to tell, and `look` must not be called. Refers to its constructor's arguments, which must
/// outlive it. *Engine only*, except `inquire`.
class JobWatch {
 public:
  JobWatch(World& world, const Config& config, Negotiator& negotiator, const RankState& own);

  /// The time after which there may be something to say of what waits; 0: never.
  [[nodiscard]] std::chrono::milliseconds patience() const { return stalls_.first(); }

  /// Takes an account, a delay, or late messages of a rank.
  void take(const Negotiator::Told& told, TimePoint now);
  /// Warns of what has waited for long, asks those that are waited for, and ends the job if they do not come.
  /// Returns when to look again.
  TimePoint look(TimePoint now);
  /// A step of a training has ended at `now`.
  void end_step(const Coordinator::Step& step, TimePoint now);

  /// The launcher asks how the job is (`Config::question_fd`): `answer` is to tell it. Thread-safe.
  void inquire(std::uint64_t question) { question_ = question; }
  /// Tells the launcher that, if it has asked.
  void answer(TimePoint now);
  /// Tells the launcher who has left although others wait for a tensor of it: if such a rank then ends with
  /// an error, it is the cause of the errors that the others get.
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
