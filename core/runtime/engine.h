// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/owner_process.h"
#include "core/runtime/handle.h"
#include "core/runtime/loop.h"

#include <atomic>
#include <cstdint>
#include <thread>

namespace hora {

/// Runs a loop on a thread of its own. While a thread waits for an operation of the loop, it runs the loop on
/// that thread, which saves handing over there and back.
///
/// Protocol. `token_` says that some thread is in charge; only that one touches the loop, or writes what the
/// wake-up sleeps for. All accesses to it, to `until_` and to the wake-up are seq_cst.
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
/// No work is left lying. The own thread sleeps in 2 or 5, for a ring after `seen`. In 5 it has looked at all
/// work from before; later work rings. In 2 the token was held. The holder's last turn sees the work from
/// before it; later work makes e ring. That ring comes after `seen`, as e comes after d, which comes after 2;
/// and e finds `until_` as 1 has left it. A thread that finds the token held rings, so the holder turns
/// again. The thread in charge sleeps on the same wake-up as the own thread would. Both wake then, and the
/// one without the token goes back to 2. The loop is over in one turn, of the thread in charge, and the own
/// thread ends.
///
/// Naps. A thread that submits many small tensors can go on with that, also on the same core, and the tensors
/// are agreed on together. A little submitted work is left lying while the own thread naps, for longer where
/// it shares the program's core. The own thread naps instead of sleeping in 2 and 5 where something rang
/// since it rested before. It naps between 2 and 3 where little work has woken it. A nap ends when its time
/// is over, as soon as much has gathered, or as soon as something else rings, such as a control message. One
/// exception: a ring between s1 and s2 is taken for the submission's, and waits for the nap's end (1 ms at
/// most). A thread that waits on this rank takes the token.
///
///   own thread, napping                         a thread that submits
///   n1. looks_at_ = the nap's end               s1. the entry, gathered_, submissions_
///   n2. waits for time, much, or another ring   s2. rings += 1
///   n3. looks_at_ = 0; goes to 1                s3. unless it is little, and it is not looks_at_ yet: wakes
///
/// An entry for which s3 has not woken the own thread is not left lying. Step s3 has found looks_at_ as n1
/// has set it. So s2 comes before n3, and before 1 that follows, whose `seen` counts that ring. So either 3
/// sees the entry, or the token was held by a thread that sees it in its last turn, or rings in e.
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
  /// How often it has rung, and how often of those for something that was submitted, or was about to be.
  struct Seen {
    std::uint32_t rings;
    std::uint32_t submissions;
  };

  /// How long the own thread leaves little lying.
  struct Patience {
    std::size_t much;  // bytes that are not left
    std::chrono::microseconds nap;
    std::chrono::microseconds longest_nap;
  };
  static const Patience kBeside;
  static const Patience kInBetween;

  void run();
  Loop::Turn turn(bool pressing);
  [[nodiscard]] Seen look() const;
  /// Whether there is something to do that can wait.
  [[nodiscard]] bool has_gathered_little() const;
  /// Sleeps or naps; until then at the latest.
  void rest(Seen seen, TimePoint until);
  void nap(Seen seen, TimePoint until);
  [[nodiscard]] const Patience& patience() const;
  bool take_token() { return !token_.exchange(true, std::memory_order_seq_cst); }
  void give_token_back() { token_.store(false, std::memory_order_seq_cst); }
  void help_on(const Handle::State& wanted, TimePoint deadline);
  void drive(const Handle::State& wanted, TimePoint deadline);
  [[nodiscard]] bool spin_for_news(std::uint32_t seen, const Handle::State* wanted);
  [[nodiscard]] Sleep sleep_now() const;

  Loop& loop_;
  WakeUp wake_up_;
  std::atomic<bool> helps_;
  std::atomic<bool> token_{false};
  std::atomic<Clock::rep> until_{0};      // how long the own thread sleeps
  std::atomic<Clock::rep> looks_at_{0};   // when the own thread looks by itself; 0: only if it rings
  std::atomic<std::size_t> gathered_{0};  // bytes submitted since the last turn began; no more than a hint
  std::atomic<bool> shares_core_{false};  // the own thread, with the program; a hint
  std::atomic<std::uint32_t> submissions_{0};  // those that ring; counted before that
  bool over_ = false;                          // under the token
  // The own thread's alone.
  std::uint32_t rested_at_ = 0;  // rings
  bool has_napped_ = false;      // since the last turn
  std::chrono::microseconds next_nap_{0};
  // A thread that helps adds itself, and then looks whether it may; who forbids it does so the other way
  // round: so either the one is waited for, or it has seen that.
  void await_helpers();
  std::atomic<int> helping_{0};
  const OwnerProcess owner_;
  std::thread thread_;
};

}  // namespace hora
