// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <atomic>
#include <cstdint>

namespace hora {

/// The news for which the thread that runs an engine sleeps.
enum class Sleep : std::uint32_t {
  none,      ///< it is awake
  any_news,  ///< and wakes for all
  peers,     ///< it cannot go on before the other ranks do: what users submit can wait
};

/// The state of a WakeUp. All zeros at first, and trivially so: it may lie in memory that processes share.
struct WakeUpWords {
  std::atomic<std::uint32_t> rings;  ///< a futex
  std::atomic<std::uint32_t> sleep;  ///< a Sleep
};

/// How an engine hears that there is something to do: of threads of its process, and of ranks of its host.
///
/// Protocol. The thread that runs the engine writes `sleep`, one at a time; any thread adds to `rings`.
///
///   runs the engine                                  has news
///   1. seen = rings                  (seq_cst)       a. the news, visible to a thread that looks for it
///   2. looks for news, and finds none                b. rings += 1            (seq_cst)
///   3. sleep = any_news or peers     (seq_cst)       c. if sleep is not none  (seq_cst)
///   4. futex_wait(rings, seen)                       d.   futex_wake(rings)
///
/// No news is slept over. Of 3 and c one comes first in the one order of all seq_cst accesses. If 3 does, d
/// wakes. Else b comes before 3, so before 4, where the futex refuses to sleep unless b came before 1, and
/// then 2 finds the news. Thread-safe, except `sleeps_for`.
class WakeUp {
 public:
  explicit WakeUp(WakeUpWords& words) : words_(words) {}

  /// How often it has rung.
  [[nodiscard]] std::uint32_t rings() const { return words_.rings.load(std::memory_order_seq_cst); }
  /// There is news.
  void ring();
  /// There is news, of something that a user has submitted: to be followed by `wake_for_submission`, unless
  /// the thread that sleeps is known to look soon.
  void count_submission();
  void wake_for_submission();
  /// Whether somebody is to be woken for news of other ranks.
  [[nodiscard]] bool sleeps() const {
    return words_.sleep.load(std::memory_order_seq_cst) != static_cast<std::uint32_t>(Sleep::none);
  }

  void sleeps_for(Sleep sleep) {
    words_.sleep.store(static_cast<std::uint32_t>(sleep), std::memory_order_seq_cst);
  }
  /// Sleeps until it has rung more often than `seen`, or the deadline; may return without either.
  void wait(std::uint32_t seen, TimePoint deadline);

 private:
  WakeUpWords& words_;
};

}  // namespace hora
