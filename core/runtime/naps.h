// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/wake_up.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hora {

/// When an engine's own thread sleeps, and for how long it leaves a little submitted work lying. A thread
/// that submits many small tensors can go on with that meanwhile, also on the same core, and the tensors are
/// agreed on together. The thread naps longer where it shares the program's core.
///
/// A *nap* is a sleep that ends when its time is over, as soon as much has gathered, or as soon as something
/// else rings, such as a control message. One exception: a ring between s1 and s2 is taken for the
/// submission's, and waits for the nap's end (1 ms at most).
///
///   own thread, napping                         a thread that submits
///   n1. looks_at_ = the nap's end               s1. the entry, gathered_, submissions_
///   n2. waits for time, much, or another ring   s2. rings += 1
///   n3. looks_at_ = 0                           s3. unless it is little, and it is not looks_at_ yet: wakes
///   n4. seen = rings; looks for work
///
/// Accesses to `looks_at_`, `submissions_` and the wake-up are seq_cst. `gathered_` and `shares_core_` are
/// relaxed, as they only decide how long a nap is. No work is slept over: s3 does not wake only if it finds
/// `looks_at_` as n1 has set it. So s2 comes before n3, and before n4, whose `seen` counts that ring. The
/// thread therefore finds the entry, or does not sleep for a ring after `seen` before some thread has looked
/// (see Engine). No thread waits here for another: a nap has an end.
///
/// `submitted` and `gather` are thread-safe; the rest belongs to the thread that has the token, and `rest`,
/// `nap`, and `take_napped` to the engine's own thread.
class Naps {
 public:
  explicit Naps(WakeUp wake_up) : wake_up_(wake_up) {}

  /// How often it has rung, and how often of those for something that was submitted, or was about to be.
  struct Seen {
    std::uint32_t rings;
    std::uint32_t submissions;
  };
  [[nodiscard]] Seen look() const;

  /// So many bytes were submitted. Returns how many that are since the last turn began.
  std::size_t gather(std::size_t bytes);
  /// Rings for a submission with which `gathered` bytes have come; wakes the thread unless that can wait.
  void submitted(std::size_t gathered);
  /// A turn begins, and takes all that has gathered.
  void begin_turn() { gathered_.store(0, std::memory_order_relaxed); }
  /// Whether there is something to do that can wait.
  [[nodiscard]] bool has_gathered_little() const;
  /// Whether the own thread shares the program's core; a hint.
  void share_core(bool shares) { shares_core_.store(shares, std::memory_order_relaxed); }

  /// Sleeps until a ring after `seen`, or the deadline. Naps instead where `may_nap` and something rang since
  /// it rested before.
  void rest(Seen seen, TimePoint until, bool may_nap);
  void nap(Seen seen, TimePoint until);
  /// Whether it has napped since the last call.
  [[nodiscard]] bool take_napped();

 private:
  /// How long little is left lying.
  struct Limits {
    std::size_t much;  // bytes that are not left
    std::chrono::microseconds nap;
    std::chrono::microseconds longest_nap;
  };
  static const Limits kBeside;
  static const Limits kInBetween;
  [[nodiscard]] const Limits& limits() const;

  WakeUp wake_up_;
  std::atomic<Clock::rep> looks_at_{0};   // when the own thread looks by itself; 0: only if it rings
  std::atomic<std::size_t> gathered_{0};  // bytes submitted since the last turn began; no more than a hint
  std::atomic<bool> shares_core_{false};
  std::atomic<std::uint32_t> submissions_{0};  // those that ring; counted before that
  // The own thread's alone.
  std::uint32_t rested_at_ = 0;  // rings
  bool has_napped_ = false;
  std::chrono::microseconds next_nap_{0};
};

}  // namespace hora
