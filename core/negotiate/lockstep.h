// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace hora {

/// One rank's place in a locked schedule: decisions that all ranks make in the same order, step after step,
/// each as soon as all have asked for it. The ranks tell each other in a ReadinessVote how far they are: with
/// `word`, which also says whether they are at the same place. A value.
class Lockstep {
 public:
  /// `order`: the decisions of a step, in this order; the first `made` of the present step are decided
  /// already.
  Lockstep(std::vector<DecisionId> order, std::size_t made);

  /// This rank asks for it. False: it is not part of a step, or has been asked for already.
  bool ask(DecisionId id);
  /// How many of the next decisions this rank has asked for.
  [[nodiscard]] std::size_t ready() const { return ready_; }
  /// How many this rank has asked for and are not decided, `ready` or not.
  [[nodiscard]] std::size_t waiting() const { return waiting_; }
  /// The next one.
  [[nodiscard]] DecisionId next() const { return order_[at_]; }
  /// Makes the next ones, of which no more than `ready`.
  std::vector<DecisionId> decide(std::size_t count);
  /// How many have been made since it was locked.
  [[nodiscard]] std::uint64_t decided() const { return decided_; }

  /// Whether a rank wants the lock to end: no; at once; because it has waited for long. Of several, the
  /// last one counts.
  enum class End : std::uint8_t { no, at_once, after_waiting };
  /// The answer of a rank: how many decisions it is ready for, where it is, and whether it wants the lock to
  /// end.
  [[nodiscard]] std::uint64_t word(End end) const;
  [[nodiscard]] static End end_in(std::uint64_t word);
  [[nodiscard]] static std::size_t ready_in(std::uint64_t word);
  /// The same in the words of all ranks: which decisions have been made, in which order.
  [[nodiscard]] static std::uint64_t place_in(std::uint64_t word);

 private:
  /// Of a decision that this rank may ask for. One that a step makes twice it asks for again after the first.
  enum class State : std::uint8_t { none, asked, ready };
  void extend();

  std::vector<DecisionId> order_;
  std::unordered_map<DecisionId, State> states_;
  std::size_t at_;
  std::size_t ready_ = 0;
  std::size_t waiting_ = 0;
  std::uint64_t decided_ = 0;
  std::uint64_t hash_ = 0;  // of all decisions made, and of the order
};

}  // namespace hora
