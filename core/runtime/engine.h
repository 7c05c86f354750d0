// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/owner_process.h"
#include "core/runtime/engine_token.h"
#include "core/runtime/handle.h"
#include "core/runtime/loop.h"
#include "core/runtime/naps.h"

#include <atomic>
#include <cstdint>
#include <thread>

namespace hora {

/// Runs a loop on a thread of its own. While a thread waits for an operation of the loop, it runs the loop on
/// that thread, which saves handing over there and back.
///
/// Protocol. `token_` (EngineToken) says that some thread is in charge; only that one touches the loop and
/// `over_`, or writes what the wake-up sleeps for. All accesses to it, to `until_` and to the wake-up are
/// seq_cst.
///
///   own thread                                  a thread that waits (`help`)
///   1. until_ = never; seen = rings             a. takes the token; or rings and leaves it all to who has it
///   2. takes the token; else waits for a ring   b. turns, and rests in between, until it has what it wants
///      after `seen`, and goes to 1              c. says what the wake-up sleeps for: the own thread, now
///   3. turns until there is nothing to do       d. gives the token back
///   4. until_ = when to look again; says what   e. rings if there is something to do: it rang after the
///      the wake-up sleeps for                        last turn, all ranks have answered, or `until_` is late
///   5. gives the token back; waits for a ring
///
/// No work is left lying, so no thread waits for ever. The own thread sleeps in 2 or 5, for a ring after
/// `seen`. In 5 it has looked at all work from before; later work rings. In 2 the token was held. The
/// holder's last turn sees the work from before it; later work makes e ring. That ring comes after `seen`, as
/// e comes after d, which comes after 2; and e finds `until_` as 1 has left it. A thread that finds the token
/// held rings, so the holder turns again. The thread in charge sleeps on the same wake-up as the own thread
/// would. Both wake then, and the one without the token goes back to 2. The loop is over in one turn, of the
/// thread in charge, and the own thread ends.
///
/// The own thread may nap (Naps) instead of sleeping in 2 and 5, and between 2 and 3 where little work has
/// woken it; then it gives the token back for that time, and goes to 1. An entry for which no thread was
/// woken during a nap is not left lying: either 3 sees it, or the token was held by a thread that sees it in
/// its last turn, or rings in e. A thread that waits on this rank takes the token, whatever the own thread
/// does.
///
/// Thread-safe.
class Engine final : public Helper {
 public:
  /// `helps`: whether other threads may run the loop.
  Engine(Loop& loop, bool helps);
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  void start();
  /// Waits until the loop is over.
  void join();
  [[nodiscard]] bool joinable() const { return thread_.joinable(); }

  /// Whether this thread runs a loop: then it must not wait for the end of one.
  [[nodiscard]] static bool calls_this_thread();
  /// Waits until no thread runs the loop, or will. It must be over.
  void stop();

  /// From now on no other thread runs the loop: what comes is to be done on one and the same. Returns when
  /// that is so.
  void keep_to_own_thread();

  /// So many bytes were submitted. Nobody is woken if this thread is in a BlockingScope and helps next.
  void submitted(std::size_t bytes);
  void help(const Handle::State& wanted, TimePoint deadline) override;
  /// Throws Error(unavailable) in a forked child.
  void check_process() const { owner_.check(); }
  [[nodiscard]] bool is_in_own_process() const { return owner_.is_this(); }

 private:
  void run();
  void rest_after(Naps::Seen seen, const Loop::Turn& last, bool spins);
  Loop::Turn turn(bool pressing);
  void help_on(const Handle::State& wanted, TimePoint deadline);
  void drive(const Handle::State& wanted, TimePoint deadline);
  [[nodiscard]] bool spin_for_news(std::uint32_t seen, const Handle::State* wanted);
  [[nodiscard]] Sleep sleep_now() const;

  Loop& loop_;
  WakeUp wake_up_;
  EngineToken token_;
  Naps naps_;
  std::atomic<Clock::rep> until_{0};  // how long the own thread sleeps
  bool over_ = false;                 // under the token
  const OwnerProcess owner_;
  std::thread thread_;
};

}  // namespace hora
