// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/arena.h"

#include <hora/status.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace hora {

/// One rank's way to wait for the others: phases. `arrive` says that this rank has reached its next phase; `await_all`
/// returns when every rank has reached it, and what they wrote before is then visible here.
///
/// Protocol. `Seat::arrived` counts the owner's phases; only the owner writes it. Waiting spins for a while, about as
/// long as going to sleep would cost (not at all when there are more ranks than cores), and then sleeps on the owner's
/// own `doorbell`:
///
///   sleeper, rank s                              waker, rank w
///   1. bell = s.doorbell                         a. w.arrived = n                (seq_cst)
///   2. s.sleeping = 1             (seq_cst)      b. if s.sleeping                (seq_cst)
///   3. if w.arrived >= n: done    (seq_cst)      c.    s.doorbell += 1, futex_wake(s.doorbell)
///   4. futex_wait(s.doorbell, bell)
///
/// In the one order of all seq_cst accesses either 2 comes before b, then the waker rings, and the futex refuses to sleep
/// if it rang since 1; or a comes before 3, and the sleeper does not sleep. `abort` sets a flag that is looked at
/// between 1 and 4, and then rings this rank's own bell, so it is not missed either. A rank that dies between a and c
/// leaves a sleeper behind; its death is noticed by the control thread, which aborts.
///
/// *Engine only*, except `abort`.
class Doorbell {
 public:
  /// `spin`: how long to look before sleeping.
  Doorbell(std::shared_ptr<Arena> arena, int rank, int ranks, std::chrono::nanoseconds spin);

  void arrive();
  /// Throws Error with the abort's status.
  void await_all();
  void abort(const Status& why) noexcept;
  void throw_if_aborted();

  /// What blocking costs here, or nothing if these ranks outnumber the cores that they may use.
  [[nodiscard]] static std::chrono::nanoseconds spin_for(int ranks);

 private:
  void await(int rank);
  bool spin_until(const Seat& seat) const;
  void ring(Seat& seat) const;

  std::shared_ptr<Arena> arena_;
  int rank_;
  int ranks_;
  std::chrono::nanoseconds spin_;
  std::uint64_t phase_ = 0;
  std::atomic<bool> aborted_ = false;
  std::mutex mutex_;
  Status why_;  // under the mutex
};

}  // namespace hora
