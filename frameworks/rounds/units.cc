// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/units.h"

#include <map>

namespace hora::rounds {

int Units::add_unit() {
  units_.emplace_back();
  return static_cast<int>(units_.size()) - 1;
}

void Units::add_parameter(int unit, int kind) {
  parameters_.push_back({.given_unit = unit, .given_kind = kind});
  if (kind != kUnknown) join(static_cast<int>(parameters_.size()) - 1);
}

void Units::join(int parameter) {
  at(parameter).member = true;
  unit_of(at(parameter)).members.push_back(parameter);
}

// --- passes of backward() ---

void Units::begin_pass() {
  unsent_ = 0;
  for (Unit& unit : units_) {
    clear_ready(unit);
    if (!unit.members.empty() && !unit.sent) ++unsent_;
  }
}

void Units::clear_ready(Unit& unit) {
  unit.ready = 0;
  for (const int member : unit.members) at(member).ready = false;
}

void Units::submit_again(int parameter) {
  Unit& unit = unit_of(at(parameter));
  if (!at(parameter).member || !unit.sent) return;
  unit.sent = false;
  ++unsent_;
}

bool Units::completes(int parameter) {
  Parameter& come = at(parameter);
  if (come.ready || !come.member) return false;
  Unit& unit = unit_of(come);
  come.ready = true;
  ++unit.ready;
  if (unit.ready != unit.members.size() || unsent_ <= 1) return false;
  clear_ready(unit);
  --unsent_;
  return true;
}

// --- rounds ---

std::vector<std::vector<int>> Units::unsubmitted() const {
  std::vector<std::vector<int>> found;
  for (const Unit& unit : units_) {
    if (!unit.members.empty() && !unit.sent) found.push_back(unit.members);
  }
  found.insert(found.end(), question_.learned.begin(), question_.learned.end());
  return found;
}

void Units::submitted(const std::vector<int>& parameters) {
  if (std::erase(question_.learned, parameters) > 0) return;
  Unit& unit = unit_of(at(parameters.front()));
  clear_ready(unit);
  unit.sent = true;
}

void Units::end_round() {
  for (const int parameter : question_.passing) at(parameter).kind = kUnknown;
  question_ = {};
  for (Unit& unit : units_) unit.sent = false;
}

std::vector<int> Units::unasked() const {
  std::vector<int> found;
  if (question_.ended || awaits_kinds()) return found;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].kind == kUnknown) found.push_back(static_cast<int>(i));
  }
  return found;
}

void Units::learn(const std::vector<int>& kinds, bool lasting) {
  std::map<int, std::size_t> of_unit;  // the list of `learned` that has the dense ones of a unit
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == kUnknown) continue;
    const int parameter = question_.asked[i];
    if (lasting) {
      become_member(parameter, kinds[i]);
      unit_of(at(parameter)).sent = true;  // by the list in `learned`
    } else {
      at(parameter).kind = kinds[i];
      question_.passing.push_back(parameter);
    }
    std::size_t list = question_.learned.size();
    if (travels_dense(kinds[i])) list = of_unit.emplace(at(parameter).unit, list).first->second;
    if (list == question_.learned.size()) question_.learned.emplace_back();
    question_.learned[list].push_back(parameter);
  }
  learn_nothing();
}

void Units::become_member(int parameter, int kind) {
  at(parameter).kind = kind;
  if (!travels_dense(kind)) {
    if (at(parameter).own_unit == kNone) at(parameter).own_unit = add_unit();
    at(parameter).unit = at(parameter).own_unit;
  }
  join(parameter);
}

void Units::learn_nothing() {
  question_.asked.clear();
  question_.ended = true;
}

void Units::forget_kinds() {
  question_ = {};
  for (Unit& unit : units_) unit = {};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    Parameter& each = parameters_[i];
    each.unit = each.given_unit;
    each.kind = each.given_kind;
    each.member = each.ready = false;
    if (each.kind != kUnknown) join(static_cast<int>(i));
  }
}

std::vector<int> Units::lasting_kinds() const {
  std::vector<int> kinds;
  for (const Parameter& each : parameters_) kinds.push_back(each.member ? each.kind : kUnknown);
  return kinds;
}

void Units::recall(const std::vector<int>& kinds) {
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] != kUnknown && !parameters_[i].member) become_member(static_cast<int>(i), kinds[i]);
  }
}

}  // namespace hora::rounds
