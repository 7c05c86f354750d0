// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/coordinator.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace hora {

/// One rank's seat at the negotiation: turns its requests into ballots, and verdicts into decisions. Rank 0's
/// seat also holds the coordinator. Refers to the control, which must outlive it. *Engine only.*
class Negotiator {
 public:
  explicit Negotiator(Control& control, std::size_t capacity = 8192);

  /// Asks for tensors that are ready on this rank.
  void ask(const std::vector<Request>& requests, TimePoint now);
  /// Says that this rank will ask for nothing more. Call once.
  void leave(TimePoint now);

  /// What one verdict says. A value.
  struct Heard {
    std::vector<Decision> decisions;  ///< to be carried out in this order
    bool end = false;                 ///< every rank has left; nothing will be heard any more
  };
  /// Waits for news: nothing at the deadline or after Control::wake. Decisions of one verdict come together,
  /// the same on every rank, but for failures of what this rank has not asked for: it does not hear of those.
  /// Throws Error with the loss's status when a rank is lost, and Error(internal) for letters that no rank
  /// would send.
  Heard hear(TimePoint deadline);

  /// Rank 0's memory, for those who watch it; nullptr on the others.
  [[nodiscard]] const Coordinator* coordinator() const { return coordinator_ ? &*coordinator_ : nullptr; }

 private:
  void cast(Ballot ballot, TimePoint now);
  Heard hear_as_coordinator(TimePoint deadline);
  Heard apply(const Verdict& verdict);

  Control& control_;
  Schedule schedule_;
  std::optional<Coordinator> coordinator_;
  std::uint64_t heard_ = 0;
  std::unordered_map<std::string, Request> asked_;        // under way, by name
  std::unordered_map<DecisionId, Request> asked_before_;  // what this rank asked that led to a decision
  bool undecided_ = false;  // coordinator: ballots have come since the last verdict
};

}  // namespace hora
