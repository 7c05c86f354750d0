// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"
#include "core/negotiate/schedule.h"

#include <string>
#include <unordered_map>
#include <vector>

namespace hora {

/// One rank's part in the negotiation of one group: turns its requests into ballots, and verdicts into
/// decisions. Does no I/O. *Engine only.*
class Voter {
 public:
  explicit Voter(int group, std::size_t capacity = 8192) : group_(group), schedule_(capacity) {}

  /// Asks for tensors that are ready on this rank.
  Ballot ask(const std::vector<Request>& requests);
  /// Says that this rank will ask for nothing more in this group. Once.
  [[nodiscard]] Ballot leave() const;
  /// The decisions of a verdict, to be carried out in this order: the same on every member, but for failures
  /// of what this rank has not asked for, which it does not hear of. Throws Error(internal) for what no
  /// coordinator would say.
  std::vector<Decision> apply(const Verdict& verdict);

 private:
  Decision repeated(DecisionId id);
  void learn(const Decision& decision, const Request& asked);

  int group_;
  Schedule schedule_;
  std::uint64_t heard_ = 0;                               // verdicts
  std::unordered_map<std::string, Request> asked_;        // under way, by name
  std::unordered_map<DecisionId, Request> asked_before_;  // what this rank asked that led to a decision
};

}  // namespace hora
