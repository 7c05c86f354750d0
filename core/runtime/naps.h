// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/wake_up.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace hora {

/// Decides when the engine's own thread sleeps, and for how long a few submitted bytes wait for more. During
/// such a wait a thread can submit further small tensors, even if both threads share one core. All these
/// tensors are then negotiated together. Waits are longer if the engine's thread and the program share a
/// core.
///
/// A *nap* is a short sleep with a fixed end. It ends early when many bytes have been submitted, or when the
/// wake-up rings for another reason, such as a control message. There is one exception. A ring between s1 and
/// s2 is counted as the ring of the submission, so it waits for the end of the nap (1 ms at most).
///
///   own thread, napping                         a thread that submits
///   n1. looks_at_ = the end of the nap          s1. puts the entry; adds to gathered_ and submissions_
///   n2. waits for that time, for many bytes,    s2. rings += 1
///       or for another ring                     s3. wakes the own thread, unless few bytes have gathered
///   n3. looks_at_ = 0                               and looks_at_ is in the future
///   n4. seen = rings; looks for work
///
/// Accesses to `looks_at_`, `submissions_` and the wake-up are seq_cst. `gathered_` and `shares_core_` are
/// relaxed, because they only decide how long a nap is. No work is missed. If s3 does not wake, it has read
/// the `looks_at_` that n1 wrote. Then s2 comes before n3, and so before n4, whose `seen` counts that ring.
/// So the entry is found by the own thread, or by another thread before the own thread sleeps for a ring
/// after `seen` (see Engine). Every nap has an end, so no thread waits here for another one.
///
/// `look`, `gather` and `submitted` are thread-safe. `rest`, `nap` and `take_napped` belong to the engine's
/// own thread. The other functions belong to the thread that has the token.
class Naps {
 public:
  explicit Naps(WakeUp wake_up) : wake_up_(wake_up) {}

  /// The number of rings of the wake-up, and how many of them were for submissions. A submission is counted
  /// before it rings, so the second number may be ahead.
  struct Seen {
    std::uint32_t rings;
    std::uint32_t submissions;
  };
  /// The numbers at this time.
  [[nodiscard]] Seen look() const;

  /// Counts `bytes` that were submitted. Returns the number of bytes submitted since the last turn began.
  std::size_t gather(std::size_t bytes);
  /// Rings the wake-up for a submission. `gathered`: the result of `gather` for it. Wakes the sleeping
  /// thread, unless the submission can wait for the end of a nap.
  void submitted(std::size_t gathered);
  /// Sets the count of bytes to 0, because a turn begins and takes all that was submitted.
  void begin_turn() { gathered_.store(0, std::memory_order_relaxed); }
  /// Whether bytes were submitted, but so few that they can wait.
  [[nodiscard]] bool has_gathered_little() const;
  /// Sets whether the own thread shares its core with the program. This is a hint.
  void share_core(bool shares) { shares_core_.store(shares, std::memory_order_relaxed); }

  /// Sleeps until a ring after `seen`, or until the deadline `until`. Naps instead if `may_nap` is true and
  /// the wake-up has rung since the last `rest`.
  void rest(Seen seen, TimePoint until, bool may_nap);
  /// Naps: as described above, and not longer than until `until`.
  void nap(Seen seen, TimePoint until);
  /// Whether the own thread has napped since the last call of this function.
  [[nodiscard]] bool take_napped();

 private:
  /// The limits of a nap.
  struct Limits {
    std::size_t much;               // bytes that end a nap
    std::chrono::microseconds nap;  // the first nap; each further one in a row is twice as long
    std::chrono::microseconds longest_nap;
  };
  static const Limits kBeside;     // the own thread has a core of its own
  static const Limits kInBetween;  // it shares the core of the program
  [[nodiscard]] const Limits& limits() const;

  WakeUp wake_up_;
  std::atomic<Clock::rep> looks_at_{0};   // when a nap ends; 0: the own thread does not nap
  std::atomic<std::size_t> gathered_{0};  // bytes submitted since the last turn began; a hint
  std::atomic<bool> shares_core_{false};
  std::atomic<std::uint32_t> submissions_{0};  // counted before they ring
  // Only the own thread uses these.
  std::uint32_t rested_at_ = 0;  // the number of rings at the last `rest`
  bool has_napped_ = false;
  std::chrono::microseconds next_nap_{0};
};

}  // namespace hora
