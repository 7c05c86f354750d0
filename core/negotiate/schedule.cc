// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/schedule.h"

#include "core/base/operations.h"
#include "core/negotiate/ordinal.h"

#include <utility>

namespace hora {

bool Schedule::keeps(const Decision& decision) {
  return decision.status.ok() && decision.joined.empty() && !concerns_members(decision.request.operation);
}

Schedule::Learned Schedule::learn(const Decision& decision) {
  Learned learned{next_++, 0};
  if (const auto* former = find(decision.request.name)) {
    learned.forgotten = *former;
  } else if (decisions_.size() >= capacity_) {
    learned.forgotten = ages_.front();
  }
  if (learned.forgotten != 0) forget(learned.forgotten);
  std::string name = name_of_repeat(decision.request.name);
  by_name_.insert_or_assign(name, learned.id);
  decisions_.emplace(learned.id, Known{decision, std::move(name), ages_.insert(ages_.end(), learned.id)});
  return learned;
}

const Decision* Schedule::use(DecisionId id) {
  const auto known = decisions_.find(id);
  if (known == decisions_.end()) return nullptr;
  auto& [decision, name, age] = known->second;
  ages_.splice(ages_.end(), ages_, age);
  if (name == decision.request.name) return &decision;
  forget_name(id, name);
  decision.request.name = std::exchange(name, name_of_repeat(name));
  by_name_.insert_or_assign(name, id);
  return &decision;
}

const DecisionId* Schedule::find(const std::string& name) const {
  const auto known = by_name_.find(name);
  return known == by_name_.end() ? nullptr : &known->second;
}

void Schedule::forget(DecisionId id) {
  const auto known = decisions_.find(id);
  forget_name(id, known->second.name);
  ages_.erase(known->second.age);
  decisions_.erase(known);
}

/// Another decision may have the name by now: ordinals need not be decided in their order.
void Schedule::forget_name(DecisionId id, const std::string& name) {
  const auto known = by_name_.find(name);
  if (known != by_name_.end() && known->second == id) by_name_.erase(known);
}

}  // namespace hora
