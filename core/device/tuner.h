// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

namespace hora {

/// Finds out which of two ways to do the same work is the faster one on this machine. Work of each order of
/// magnitude (a size class) is judged by itself. Work that is too small to be timed goes with the smallest
/// class that is not. For one thread at a time.
///
/// A class begins as the nearest class that has a leader. Without one, the two ways take turns and are timed,
/// and the faster one leads. From then on the other way is tried again from time to time (a trial). The
/// reasons are that noise may have misled the first turns, and that a virtual machine may move cores and
/// caches. A leader that becomes slower than the other way was gives way at once.
///
/// A cost is the mean of the faster half of a few calls, so calls that were interrupted do not count. Trials
/// come after 12, 24, 48 and 96 calls; later as seldom as is needed for them to take 1 % of the time. With
/// the other way at twice the cost that is every 600 calls.
class Tuner {
 public:
  /// `least`: bytes that are worth timing. `second`: nothing is tuned, and everything goes the second way, or
  /// the first.
  explicit Tuner(std::size_t least, std::optional<bool> second = {});

  /// The way, 0 or 1, in which `bytes` bytes should be done now.
  [[nodiscard]] std::size_t way(std::size_t bytes) const;

  /// Notes the time that it took to do them in this way.
  void note(std::size_t way, std::size_t bytes, std::chrono::duration<double> time);

 private:
  /// The last calls of one way. Costs are in seconds a byte.
  class Window {
   public:
    void add(double cost);
    void clear() { count_ = 0; }
    [[nodiscard]] std::size_t count() const { return count_; }
    /// The mean of the faster half. At least two calls must be there.
    [[nodiscard]] double cost() const;

   private:
    std::array<double, 8> costs_{};
    std::size_t count_ = 0;
    std::size_t next_ = 0;
  };

  /// One order of magnitude.
  class SizeClass {
   public:
    /// Whether it is known which way leads.
    [[nodiscard]] bool decided() const;
    [[nodiscard]] std::size_t leader() const { return costs_[1] < costs_[0] ? 1 : 0; }
    [[nodiscard]] std::size_t next() const;
    void note(std::size_t way, double cost);
    /// Begins with what another one has decided, in whose leading way a call has just had this cost.
    void inherit(const SizeClass& other, double cost);

   private:
    void note_turn(std::size_t way, double cost);
    void note_leader(double cost);
    void note_trial(double cost);
    void end_trial();

    std::array<Window, 2> windows_;
    std::array<double, 2> costs_{};  // of both ways, as far as they are known
    int turns_ = 0;
    std::size_t led_ = 0;  // calls since the last trial
    std::size_t gap_ = kFirstGap;
    int tried_ = 0;  // calls of the trial that is under way
  };

  static constexpr std::size_t kFirstGap = 12;  // calls

  static constexpr std::size_t kClasses = 65;  // by the number of binary digits of the bytes

  [[nodiscard]] std::size_t class_of(std::size_t bytes) const;
  void find_deciders();

  std::size_t least_;
  std::optional<bool> second_;
  std::array<SizeClass, kClasses> classes_;
  // The class that decides about a class: itself, or the nearest one that has been decided.
  std::array<std::size_t, kClasses> decides_;
};

}  // namespace hora
