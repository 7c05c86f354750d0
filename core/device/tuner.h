// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

namespace hora {

/// Chooses the faster of two ways to do the same work, from the times of earlier calls. The caller asks
/// `way`, does the work in that way, and reports its time with `note`. For one thread at a time.
///
/// Sizes are judged in classes: all sizes with the same number of binary digits are one class. Sizes below
/// `least` are not timed; they follow the class of `least`. The leader of a class is the way that is known to
/// be faster. A class without a leader gets one as follows:
///
///   if other classes have one   it uses the leader of the nearest class, and takes that over with its first
///                               own call
///   else                        the two ways take turns for 16 calls: 4 are not timed, and then the cheaper
///                               way leads
///
/// Later the other way is tried again, for 4 or 6 calls (a trial). Noise may have misled the first turns, and
/// a virtual machine may move cores and caches. A trial comes after 12 calls of the leader, and after each
/// trial that changes nothing this number doubles. It stops doubling when trials take 1 % of the time, at 128
/// calls or more: about 600 if the other way costs twice as much. The leader also changes, at once, if its
/// cost rises above the last known cost of the other way.
///
/// A cost is in seconds per byte: the mean of the faster half of the last calls (4 to 8), so calls that were
/// interrupted do not count.
class Tuner {
 public:
  /// `least`: the smallest number of bytes that is worth timing. `second`: if it is given, nothing is timed,
  /// and `way` is always 1 (true) or always 0 (false).
  explicit Tuner(std::size_t least, std::optional<bool> second = {});

  /// The way, 0 or 1, in which `bytes` bytes should be done now.
  [[nodiscard]] std::size_t way(std::size_t bytes) const;

  /// Takes the time of a call that did `bytes` bytes in this way.
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
    /// Takes over the leader of another class. `cost`: of a call of this class in that way.
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
