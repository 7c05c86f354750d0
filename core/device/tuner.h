// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <optional>

namespace hora {

/// Finds out which of two ways to do the same is the faster one on this machine, for work of each order of
/// magnitude by itself. The first times the ways take turns and are timed, and the faster one leads; it also
/// leads at first where work of another magnitude begins. The other one is tried again from time to time, the
/// more seldom the longer it loses, and takes over when it has become faster: where cores and caches lie may
/// change under a program, above all in a virtual machine. Work that is too small to tell anything goes with
/// the smallest that is not. For one thread at a time.
class Tuner {
 public:
  /// `least`: bytes that are worth timing. `second`: there is no tuner, and everything goes the second way,
  /// or the first.
  explicit Tuner(std::size_t least, std::optional<bool> second = {});

  /// The way, 0 or 1, in which `bytes` bytes should be done now.
  [[nodiscard]] std::size_t way(std::size_t bytes) const;

  /// What it took to do them in this way.
  void note(std::size_t way, std::size_t bytes, std::chrono::duration<double> time);

 private:
  /// One order of magnitude. Costs are in seconds a byte.
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
    void note_retrial(double cost);

    std::array<double, 2> costs_{};  // of late
    std::array<int, 2> times_{};     // so often timed while they take turns
    int turns_ = 0;
    std::size_t led_ = 0;  // calls since the other way was tried
    std::size_t gap_ = kFirstGap;
    int retrials_ = 0;  // of the other way, in this row
    double retried_ = 0;
  };

  static constexpr std::size_t kFirstGap = 61;  // calls

  static constexpr std::size_t kClasses = 65;  // by the number of binary digits of the bytes

  [[nodiscard]] std::size_t class_of(std::size_t bytes) const;
  void find_deciders();

  std::size_t least_;
  std::optional<bool> second_;
  std::array<SizeClass, kClasses> classes_;
  // Whose bout decides about a class: its own, or the nearest one that has been decided.
  std::array<std::size_t, kClasses> decides_;
};

}  // namespace hora
