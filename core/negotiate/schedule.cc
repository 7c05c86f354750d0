// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/schedule.h"

namespace hora {

bool Schedule::keeps(const Decision& decision) {
  return decision.status.ok() && decision.joined.empty() && decision.request.operation < Operation::join;
}

Schedule::Learned Schedule::learn(const Decision& decision) {
  Learned learned{next_++, 0};
  if (const auto* former = find(decision.request.name)) {
    learned.forgotten = *former;
  } else if (decisions_.size() >= capacity_) {
    learned.forgotten = ages_.front();
  }
  if (learned.forgotten != 0) forget(learned.forgotten);
  by_name_.emplace(decision.request.name, learned.id);
  decisions_.emplace(learned.id, Known{decision, ages_.insert(ages_.end(), learned.id)});
  return learned;
}

const Decision* Schedule::use(DecisionId id) {
  const auto known = decisions_.find(id);
  if (known == decisions_.end()) return nullptr;
  ages_.splice(ages_.end(), ages_, known->second.age);
  return &known->second.decision;
}

const DecisionId* Schedule::find(const std::string& name) const {
  const auto known = by_name_.find(name);
  return known == by_name_.end() ? nullptr : &known->second;
}

void Schedule::forget(DecisionId id) {
  const auto known = decisions_.find(id);
  by_name_.erase(known->second.decision.request.name);
  ages_.erase(known->second.age);
  decisions_.erase(known);
}

}  // namespace hora
