// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>
#include <optional>

namespace hora {

/// Finds out which of two ways to do the same is the faster one on this machine: the first times they take
/// turns and are timed, and then the faster way stays. Work that is too small to tell anything takes the way
/// that leads. For one thread at a time.
class Contest {
 public:
  /// `least`: bytes that are worth timing. `second`: there is no contest, and everything goes the second way,
  /// or the first.
  explicit Contest(std::size_t least, std::optional<bool> second = {}) : least_(least), second_(second) {}

  /// The way, 0 or 1, in which `bytes` bytes should be done now.
  [[nodiscard]] std::size_t way(std::size_t bytes) const {
    if (second_) return *second_ ? 1 : 0;
    if (bytes >= least_ && trials_ < kTrials) return turn();
    return seconds_[1] * bytes_[0] < seconds_[0] * bytes_[1] ? 1 : 0;
  }

  /// What it took.
  void note(std::size_t way, std::size_t bytes, std::chrono::duration<double> time) {
    if (bytes < least_ || trials_ >= kTrials) return;
    ++trials_;
    if (trials_ <= kWarmUp) return;  // page faults and cold caches
    seconds_[way] += time.count();
    bytes_[way] += static_cast<double>(bytes);
  }

 private:
  /// 0110 1001 ...: calls that alternate, such as two batches of each step, do not always find the same way.
  [[nodiscard]] std::size_t turn() const {
    return static_cast<std::size_t>(std::popcount(static_cast<unsigned>(trials_)) % 2);
  }

  static constexpr int kWarmUp = 4;
  static constexpr int kTrials = 16;

  std::size_t least_;
  std::optional<bool> second_;
  std::array<double, 2> seconds_{};
  std::array<double, 2> bytes_{};
  int trials_ = 0;
};

}  // namespace hora
