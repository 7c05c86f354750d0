// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/shared_cores.h"
#include "core/comm/wake_up.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace hora {

/// One rank's part of a roll call, in memory that all its ranks see. Only that rank writes it, but for the
/// futex of `wake_up`. All zeros at first, and trivially so.
struct RollcallSeat {
  /// The answer of a rank in one round, and its time, on the clock that all ranks of a machine have.
  struct Answer {
    std::uint64_t word;
    Clock::rep when;
  };
  alignas(128) std::atomic<std::uint64_t> answered;  ///< the last round that this rank has answered in
  std::atomic<std::uint64_t> urged;                  ///< the last round that it wants all to answer in
  std::array<Answer, 2> answers;                     ///< of the last rounds; they alternate
  alignas(128) WakeUpWords wake_up;
  SharedCores cores;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// Rounds in which every rank answers with a word, when it likes, and sees the words of all once all have
/// answered. So ranks that share memory agree without a letter. All see the same, so all may act on it.
///
/// Protocol, of round n:
///
///   answers                                          waits for the last answer
///   a. own.answers[n % 2] = word                     1. wake_up.sleep = peers        (seq_cst)
///   b. own.answered = n                  (seq_cst)   2. if all.answered >= n: go on  (seq_cst)
///   c. if all.answered >= n              (seq_cst)   3. wake_up.wait
///   d.   ring all that sleep             (seq_cst)
///
/// The rank that answers last in the one order of all seq_cst accesses sees c come true. It rings every rank
/// whose 1 comes before its d; if 1 comes after that d, then 2 is true. Words are read after `answered` was,
/// so they are whole. They are overwritten in round n + 2; their writer reaches it only when all have
/// answered round n + 1, and so have read round n. `urge` rings every rank: one that has not answered looks
/// whether it should.
///
/// A rank that dies does not answer; a rank that waits hears of that by control. *Engine only.*
class Rollcall {
 public:
  /// `seat(place)` of that many, in all of which cores have been told; `owner` keeps their memory.
  template <typename SeatAt>
  Rollcall(int size, int place, std::shared_ptr<const void> owner, const SeatAt& seat)
      : place_(static_cast<std::size_t>(place)), owner_(std::move(owner)) {
    seats_.reserve(static_cast<std::size_t>(size));
    for (int other = 0; other < size; ++other) seats_.push_back(&seat(other));
    const auto told = [&](int other) -> const SharedCores& { return seat(other).cores; };
    cores_for_each_ = hora::cores_for_each(size, told);
  }

  [[nodiscard]] int size() const { return static_cast<int>(seats_.size()); }
  /// This rank's own wake-up.
  [[nodiscard]] WakeUpWords& wake_up() const { return seats_[place_]->wake_up; }

  /// How many of the cores that the ranks may run on there are for each; 0 if the ranks are more. The same on
  /// all ranks, and for ever.
  [[nodiscard]] int cores_for_each() const { return cores_for_each_; }

  /// Answers in the present round. Once.
  void answer(std::uint64_t word, TimePoint now);
  [[nodiscard]] bool has_answered() const { return answered_; }
  [[nodiscard]] bool has_answered(int place) const;
  /// Makes all ranks that have not answered in the present round look whether they should.
  void urge();
  /// Whether a rank wants all to answer.
  [[nodiscard]] bool is_urged() const;
  /// Whether all have answered.
  [[nodiscard]] bool is_complete();

  using Answers = std::vector<RollcallSeat::Answer>;
  /// The answers of all, by place, once the round is complete; the next round begins.
  [[nodiscard]] const Answers& conclude();

 private:
  std::vector<RollcallSeat*> seats_;
  std::size_t place_;
  std::shared_ptr<const void> owner_;
  std::uint64_t round_ = 1;
  bool answered_ = false;
  int cores_for_each_ = 0;
  std::size_t next_ = 0;  // all before this one have answered
  Answers answers_;
};

/// A roll call of ranks of this process, by rank.
[[nodiscard]] std::vector<std::unique_ptr<Rollcall>> make_rollcalls(int size);

}  // namespace hora
