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

/// One rank's part of a vote, in memory that all ranks of the vote map. Only that rank writes it, except that
/// others ring its `wake_up`. All zeros is the valid first state.
struct VotePart {
  /// The answer of a rank in one round, and its time by CLOCK_MONOTONIC, which ranks of a machine share.
  struct Answer {
    std::uint64_t word;
    Clock::rep when;
  };
  alignas(128) std::atomic<std::uint64_t> answered;  ///< the last round that this rank has answered in
  std::atomic<std::uint64_t> urged;                  ///< the last round in which it called `urge`
  std::array<Answer, 2> answers;                     ///< round n's is answers[n % 2]
  alignas(128) WakeUpWords wake_up;
  SharedCores cores;
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
              std::atomic<std::uint32_t>::is_always_lock_free);

/// The readiness vote of ranks that share memory: they agree without control messages. It goes in rounds. In
/// each round every rank answers once with a word of 64 bits, at a time of its choice. When all have
/// answered, every rank can read the same words, so all can act on them alike. Lockstep gives the word its
/// meaning.
///
/// A rank calls in each round: `answer`; `is_complete` until that is true; `conclude`. The last one gives the
/// answers and begins the next round.
///
/// Protocol, of round n:
///
///   answers                                          waits for the last answer
///   a. own.answers[n % 2] = word                     1. wake_up.sleep = peers        (seq_cst)
///   b. own.answered = n                  (seq_cst)   2. if all.answered >= n: go on  (seq_cst)
///   c. if all.answered >= n              (seq_cst)   3. wake_up.wait
///   d.   ring all that sleep             (seq_cst)
///
/// No rank sleeps for ever. Of all stores b the last one in the order of all seq_cst accesses is followed by
/// a c that is true. Its rank then rings every rank whose 1 comes before its d. If a rank's 1 comes after d,
/// that rank finds 2 true and does not sleep.
///
/// Answers are read whole. A reader loads `answered` (acquire) first, and a comes before b. Round n + 2
/// overwrites the answers of round n. A rank begins that round only when all have answered round n + 1, and
/// so have read round n.
///
/// A rank that dies never answers. The others hear of its death from Control, not from here. *Engine only.*
class ReadinessVote {
 public:
  /// `place`: of this rank among the `size` ranks of the vote. `part(i)`: the part of rank i, whose `cores`
  /// are already written. `owner` keeps the memory of all parts.
  template <typename PartAt>
  ReadinessVote(int size, int place, std::shared_ptr<const void> owner, const PartAt& part)
      : place_(static_cast<std::size_t>(place)), owner_(std::move(owner)) {
    parts_.reserve(static_cast<std::size_t>(size));
    for (int other = 0; other < size; ++other) parts_.push_back(&part(other));
    const auto told = [&](int other) -> const SharedCores& { return part(other).cores; };
    cores_for_each_ = hora::cores_for_each(size, told);
  }

  [[nodiscard]] int size() const { return static_cast<int>(parts_.size()); }
  /// This rank's own wake-up.
  [[nodiscard]] WakeUpWords& wake_up() const { return parts_[place_]->wake_up; }

  /// The number of cores that the ranks may run on, divided by the number of ranks and rounded down. So it is
  /// 0 if there are more ranks than cores. The same on all ranks, and constant.
  [[nodiscard]] int cores_for_each() const { return cores_for_each_; }

  /// Answers in this round; once in each round. If this is the last answer, wakes the ranks that sleep.
  void answer(std::uint64_t word, TimePoint now);
  /// Whether this rank has answered in this round.
  [[nodiscard]] bool has_answered() const { return answered_; }
  /// Whether the rank at `place` has.
  [[nodiscard]] bool has_answered(int place) const;
  /// Asks all ranks to answer in this round, whether they are ready or not. Wakes them: each then finds
  /// `is_urged` true. A second call in a round does nothing.
  void urge();
  /// Whether a rank, which may be this one, has called `urge` in this round.
  [[nodiscard]] bool is_urged() const;
  /// Whether all ranks have answered in this round.
  [[nodiscard]] bool is_complete();

  using Answers = std::vector<VotePart::Answer>;
  /// Ends a round that is complete, and begins the next one. Returns the answers of all, by place; they are
  /// valid until the next call.
  [[nodiscard]] const Answers& conclude();

 private:
  std::vector<VotePart*> parts_;
  std::size_t place_;
  std::shared_ptr<const void> owner_;
  std::uint64_t round_ = 1;
  bool answered_ = false;
  int cores_for_each_ = 0;
  std::size_t next_ = 0;  // all before this one have answered
  Answers answers_;
};

/// One vote of `size` ranks that are threads of this process: the object of each rank, by rank.
[[nodiscard]] std::vector<std::unique_ptr<ReadinessVote>> make_votes(int size);

}  // namespace hora
