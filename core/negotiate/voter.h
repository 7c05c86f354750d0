// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"
#include "core/negotiate/schedule.h"

#include <memory>
#include <optional>
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
  /// Notes that this rank asks for a tensor, without a ballot: the number of the decision that the same
  /// request has led to before, if it is known.
  std::optional<DecisionId> note(const Request& request);
  /// Asks for all that is under way, in the order in which it was noted or asked for.
  [[nodiscard]] Ballot ask_again();
  /// The same, as numbers, of those that this rank has asked for before; nothing if one is something new.
  [[nodiscard]] std::optional<std::vector<DecisionId>> under_way() const;
  /// Says that this rank will ask for nothing more in this group. Once. `stays`: but in others.
  [[nodiscard]] Ballot leave(bool stays) const;
  /// The decisions of a verdict, to be carried out in this order: the same on every member, but for failures
  /// of what this rank has not asked for, which it does not hear of. Throws Error(internal) for what no
  /// coordinator would say.
  std::vector<Decision> apply(const Verdict& verdict);
  /// The decision of that number, once more. Throws Error(internal) if there is none.
  Decision repeated(DecisionId id);
  /// How many verdicts this rank has heard.
  [[nodiscard]] std::uint64_t heard() const { return heard_; }
  /// Whether a decision has that number, and is not forgotten.
  [[nodiscard]] bool knows(DecisionId id) const { return schedule_.knows(id); }
  /// The number of the decision that is asked for again under this name; null: it is not known.
  [[nodiscard]] const DecisionId* number_of(const std::string& name) const { return schedule_.find(name); }
  /// The name under which the known decision of that number is asked for again.
  [[nodiscard]] const std::string& name_in(DecisionId id) const { return schedule_.name_in(id); }
  /// The request that the known decision of that number was about the last time.
  [[nodiscard]] const Request& asked_in(DecisionId id) const { return schedule_.look_up(id).request; }

 private:
  struct Asked {
    std::uint64_t number = 0;  // how many were before it
    std::shared_ptr<const Request> request;
  };
  /// The request that has led to a decision.
  struct Known {
    std::shared_ptr<const Request> request;  // by the name under which it is asked for again
    std::optional<std::uint64_t> asked;      // under way once more: Asked::number
  };
  [[nodiscard]] std::optional<DecisionId> known(const Request& request) const;
  std::shared_ptr<const Request> take(const std::string& name);
  void rename(DecisionId id);
  void learn(const Decision& decision, std::shared_ptr<const Request> asked);

  int group_;
  Schedule schedule_;
  std::uint64_t heard_ = 0;  // verdicts
  std::uint64_t asks_ = 0;
  std::unordered_map<std::string, Asked> asked_;        // under way, but for what is known
  std::unordered_map<DecisionId, Known> asked_before_;  // as many as the schedule has
};

}  // namespace hora
