// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/step_counter.h"

#include <array>
#include <cstdint>
#include <vector>

namespace hora {

/// How long the others waited for each rank in the last steps of a training, and how fast these were. It
/// allocates when it is made, and never again. *Engine only*, on rank 0.
class Lateness {
 public:
  /// How many steps it remembers.
  static constexpr std::size_t kSteps = 256;

  explicit Lateness(int ranks);

  /// A step that has ended at `now`.
  void add(const TrainingStep& step, TimePoint now);

  /// Of one rank, in the steps that are remembered. A value.
  struct OfRank {
    std::chrono::microseconds median{};
    std::chrono::microseconds p99{};  ///< the least that 99 % of them do not exceed
    double last = 0;                  ///< the share of the steps in which it was the last to come
  };
  [[nodiscard]] OfRank of(int rank) const;

  /// Steps so far.
  [[nodiscard]] std::uint64_t steps() const { return steps_; }
  /// Steps in a second, of those that have ended in the ten seconds before the last one, or of the last two;
  /// 0: that cannot be said yet.
  [[nodiscard]] double rate() const;
  /// When the last one has ended. There must have been one.
  [[nodiscard]] TimePoint ended() const { return ended_[newest()]; }

 private:
  [[nodiscard]] std::size_t kept() const { return std::min<std::size_t>(steps_, kSteps); }
  [[nodiscard]] std::size_t newest() const { return (steps_ - 1) % kSteps; }
  [[nodiscard]] std::uint32_t& behind(std::size_t step, std::size_t rank) {
    return behind_[step * ranks_ + rank];
  }
  [[nodiscard]] std::uint32_t behind(std::size_t step, std::size_t rank) const {
    return behind_[step * ranks_ + rank];
  }

  std::size_t ranks_;
  std::uint64_t steps_ = 0;
  // Rings of steps:
  std::vector<std::uint32_t> behind_;        // by step and rank: microseconds
  std::array<std::int32_t, kSteps> last_{};  // the rank that came last; -1: nobody waited
  std::array<TimePoint, kSteps> ended_{};
};

}  // namespace hora
