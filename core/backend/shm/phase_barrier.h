// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/communicator.h"

#include <hora/status.h>

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>

namespace hora::shm {

/// One rank's way to wait for the others: phases. `arrive` says that this rank has reached its next phase;
/// `await_all` returns when every rank has reached it, and what they wrote before is then visible here.
///
/// Protocol. `RankBlock::arrived` counts the owner's phases; only the owner writes it. Waiting looks again
/// and again for a while, about as long as going to sleep would cost (leaving the core to others in between
/// when there are more ranks than cores), and then sleeps on the sleeper's own `wakes`:
///
///   sleeper, rank s                                waker, rank w
///   1. rings = s.wakes                             a. w.arrived = n                  (seq_cst)
///   2. s.sleeping = 1               (seq_cst)      b. for every s with s.sleeping    (seq_cst)
///   3. if all have arrived: done    (seq_cst)      c.   if all have arrived          (seq_cst)
///   4. futex_wait(s.wakes, rings)                  d.     s.wakes += 1, futex_wake(s.wakes)
///
/// Nobody sleeps for ever. Take the rank w whose step a is the last one for phase n in the one order of all
/// seq_cst accesses. Its c is true. Either 2 comes before its b: then it rings, and the futex refuses to
/// sleep if that was after 1. Or its b, and so its a and all others' a, come before 2: then 3 is true. Only
/// ranks that see c are wakers, so that many ranks on few cores are not woken again and again for nothing.
///
/// `abort` sets a flag that is looked at between 2 and 4, and then wakes this rank itself, so it is not
/// missed either. A rank that dies between a and d leaves a sleeper behind; its death is noticed by the
/// control thread, which aborts.
///
/// *Engine only*, except `progress` and `abort`.
class PhaseBarrier {
 public:
  explicit PhaseBarrier(Communicator communicator);

  void arrive();
  /// Throws Error with the abort's status.
  void await_all();
  /// All ranks' phases. Thread-safe.
  [[nodiscard]] std::uint64_t progress() const noexcept;
  void abort(const Status& why) noexcept;
  void throw_if_aborted();
  /// Why this rank's call really fails, when it failed with `own`: a rank that is out of reach has died, and
  /// who that was and how comes by way of control, a moment later. Waits for that up to a second, and aborts
  /// with what it returns.
  Status cause_of(const Status& own);
  /// Whether waiting is expensive, because there are more ranks than cores. The same on all ranks in each
  /// phase.
  [[nodiscard]] bool crowded() const { return crowded_; }

 private:
  [[nodiscard]] bool all_arrived(std::memory_order order);
  void ring(RankBlock& block) const;

  Communicator communicator_;
  bool crowded_ = true;  // known after the first phase
  std::uint64_t phase_ = 0;
  int next_ = 0;  // all ranks before this one are known to have arrived
  std::atomic<bool> aborted_ = false;
  std::mutex mutex_;
  std::condition_variable abortion_;
  Status why_;  // under the mutex
};

}  // namespace hora::shm
