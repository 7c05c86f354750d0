// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/negotiate/message.h"

#include <list>
#include <string>
#include <unordered_map>

namespace hora {

/// The response cache: decisions that were made before. A repeated step asks for them by number, not by name.
///
/// Every rank feeds its schedule with the same verdicts in the same order, so all schedules are equal: the
/// same decision has the same number on every rank, and the same ones are forgotten. A number is never given
/// twice. One decision a name is kept, and `capacity` in all; the one not used for longest goes first.
///
/// Operations without a name have ordinals for names: "allreduce.noname.7". The decision of one is used again
/// for the next, "allreduce.noname.8", and is known by that name (ordinal.h); so a step with such operations
/// is like any other one. Only an operation that differs from the one before, or is asked for before that is
/// decided, is decided anew. *Engine only.*
class Schedule {
 public:
  explicit Schedule(std::size_t capacity = 8192) : capacity_(capacity) {}

  /// Whether a decision gets a number, and may be asked for again by it: it is ok, no member has joined, and
  /// its operation does not concern members. A pure function, so all ranks keep the same decisions.
  [[nodiscard]] static bool keeps(const Decision& decision);

  struct Learned {
    DecisionId id = 0;
    DecisionId forgotten = 0;  ///< 0: none
  };
  /// Gives a decision (that is ok) its number. The name's former decision is forgotten, else perhaps the
  /// oldest one.
  Learned learn(const Decision& decision);
  /// The decision of this number once more, which becomes the one used last; nullptr if forgotten or never
  /// given.
  const Decision* use(DecisionId id);
  /// The number of the decision that is used again under this name, if it is known.
  [[nodiscard]] const DecisionId* find(const std::string& name) const;
  /// A known decision as it was made last; not a use of it.
  [[nodiscard]] const Decision& look_up(DecisionId id) const { return decisions_.at(id).decision; }
  /// The name under which it is used again.
  [[nodiscard]] const std::string& name_in(DecisionId id) const { return decisions_.at(id).name; }
  [[nodiscard]] bool knows(DecisionId id) const { return decisions_.contains(id); }

 private:
  struct Known {
    Decision decision;
    std::string name;  // under which it is used again
    std::list<DecisionId>::iterator age;
  };
  void forget(DecisionId id);
  void forget_name(DecisionId id, const std::string& name);

  std::size_t capacity_;
  DecisionId next_ = 1;
  std::unordered_map<DecisionId, Known> decisions_;
  std::unordered_map<std::string, DecisionId> by_name_;
  std::list<DecisionId> ages_;  // the longest unused first
};

}  // namespace hora
