// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/reducer_state.h"

#include <algorithm>
#include <map>

namespace hora::rounds {
namespace {

constexpr unsigned kMostNumbers = 8;  // names of a tensor's rounds, which then repeat

}  // namespace

ReducerState::ReducerState(std::string label, int passes_per_round, bool sparse_as_dense)
    : label_(std::move(label)), sparse_as_dense_(sparse_as_dense), passes_per_round_(passes_per_round) {}

// --- parameters ---

int ReducerState::add_unit() {
  units_.emplace_back();
  return static_cast<int>(units_.size()) - 1;
}

int ReducerState::add_parameter(std::string name, int unit, int kind) {
  const int number = static_cast<int>(parameters_.size());
  parameters_.push_back({.name = std::move(name), .unit = unit, .kind = kind});
  if (kind != kUnknown) join_unit(number);
  return number;
}

void ReducerState::join_unit(int number) {
  Parameter& parameter = at(number);
  parameter.member = true;
  unit_of(parameter).members.push_back(number);
}

const std::vector<int>& ReducerState::members_with(int parameter) const {
  return units_[static_cast<std::size_t>(at(parameter).unit)].members;
}

std::string ReducerState::name_of(int parameter) const {
  return numbered_as(at(parameter).name, at(parameter).submitted);
}

std::string ReducerState::numbered_as(const std::string& name, unsigned rounds) const {
  std::string whole = label_ + "." + name;
  if (rounds > 0) whole += " (pass " + std::to_string(rounds % kMostNumbers + 1) + ")";
  return whole;
}

// --- passes of backward() ---

bool ReducerState::begin(int pass, bool overlaps) {
  if (pass == pass_.number) return false;
  spoiled_.clear();
  pass_ = {.number = pass,
           .reducing = !accumulating_ && passes_ + 1 >= passes_per_round_,
           .overlaps = overlaps,
           .unsent = 0};
  for (Unit& unit : units_) {
    clear_ready(unit);
    if (!unit.members.empty() && !unit.sent) ++pass_.unsent;
  }
  return true;
}

void ReducerState::clear_ready(Unit& unit) {
  unit.ready = 0;
  for (const int member : unit.members) at(member).ready = false;
}

Before ReducerState::before(int number, int pass) {
  if (pass != pass_.number) return Before::begin;
  Parameter& parameter = at(number);
  if (!parameter.pending) return parameter.settled ? Before::look : Before::nothing;
  Unit& unit = unit_of(parameter);
  if (parameter.member && unit.sent) {  // what is added from now on is reduced by itself
    unit.sent = false;
    ++pass_.unsent;
  }
  return Before::settle;
}

std::vector<int> ReducerState::pending_with(int number) const {
  std::vector<int> found;
  if (!at(number).member) found.push_back(number);
  for (const int member : members_with(number)) {
    if (at(member).pending) found.push_back(member);
  }
  return found;
}

bool ReducerState::is_shared(const Parameter& parameter, bool present, bool unchanged) {
  return parameter.settled && (parameter.submitted > 0 || !present || unchanged);
}

bool ReducerState::touch(int number, bool present, bool unchanged) {
  Parameter& parameter = at(number);
  const bool shared = is_shared(parameter, present, unchanged);
  parameter.settled = false;
  parameter.has_base = shared && present;
  return parameter.has_base;
}

After ReducerState::after(int number, int pass, bool on_host) {
  if (pass != pass_.number) return After::begin;
  Parameter& parameter = at(number);
  if (parameter.settled) return After::unexpected;
  if (!pass_.reducing || !failed_with_.empty() || parameter.kind == kUnknown) return After::nothing;
  if (!pass_.overlaps && on_host) return parameter.kind == kDense ? After::place : After::nothing;
  return completes_unit(parameter) ? After::submit : After::nothing;
}

bool ReducerState::completes_unit(Parameter& parameter) {
  Unit& unit = unit_of(parameter);
  if (parameter.ready || !parameter.member) return false;
  parameter.ready = true;
  ++unit.ready;
  if (unit.ready != unit.members.size() || pass_.unsent <= 1) return false;
  clear_ready(unit);
  --pass_.unsent;
  return true;
}

bool ReducerState::leave(int pass) {
  if (pass != pass_.number) return false;
  pass_.number = kNoPass;
  ++passes_;
  owed_ = owed_ || !pass_.reducing;
  return pass_.reducing;
}

bool ReducerState::fail(const std::string& why) {
  pass_.number = kNoPass;
  ++passes_;
  note_failure(why);
  due_ = !accumulating_ && passes_ >= passes_per_round_;
  return due_;
}

void ReducerState::note_failure(const std::string& why) {
  if (failed_with_.empty()) failed_with_ = why;
}

bool ReducerState::abandon() {
  if (pass_.number != kNoPass && pass_.reducing) note_failure("backward() failed");
  pass_.number = kNoPass;
  return !failed_with_.empty() || open_ || !pending().empty();
}

// --- reductions ---

Bring ReducerState::bring(int number, bool present, bool unchanged) {
  Parameter& parameter = at(number);
  parameter.absent = true;
  if (!failed_with_.empty()) return Bring::stand_in;
  if (!present) return Bring::nothing;
  if (is_shared(parameter, present, unchanged)) {
    parameter.has_base = true;
    return Bring::set_aside;
  }
  parameter.absent = false;
  return Bring::gradient;
}

void ReducerState::submitted(const std::vector<int>& parameters) {
  for (const int number : parameters) {
    at(number).pending = true;
    ++at(number).submitted;
  }
  if (std::erase(kinds_.learned, parameters) > 0) return;
  Unit& unit = unit_of(at(parameters.front()));
  clear_ready(unit);
  unit.sent = true;
}

Settle ReducerState::settled(int number, bool contributed, bool present) {
  Parameter& parameter = at(number);
  const bool has_base = std::exchange(parameter.has_base, false);
  parameter.pending = false;
  parameter.settled = true;
  const bool cleared = !parameter.absent && !present;  // by the user, after backward() was interrupted
  if (!contributed || cleared) return Settle::leave;
  return has_base ? Settle::add : Settle::take;
}

void ReducerState::lost(int number) {
  at(number).pending = false;
  at(number).has_base = false;
}

// --- rounds ---

bool ReducerState::owes_round() const {
  return rounds_ == 0 || owed_ || open_ || !failed_with_.empty() || !pending().empty();
}

std::vector<std::vector<int>> ReducerState::unsubmitted() const {
  std::vector<std::vector<int>> found;
  for (const Unit& unit : units_) {
    if (!unit.members.empty() && !unit.sent) found.push_back(unit.members);
  }
  found.insert(found.end(), kinds_.learned.begin(), kinds_.learned.end());
  return found;
}

std::vector<int> ReducerState::unasked() const {
  std::vector<int> found;
  if (kinds_.heard || awaits_kinds()) return found;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].kind == kUnknown) found.push_back(static_cast<int>(i));
  }
  return found;
}

void ReducerState::learn(const std::vector<int>& kinds, bool lasting) {
  std::map<int, std::size_t> of_unit;  // which list of `learned` has its parameters
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i] == kUnknown) continue;
    const int number = kinds_.asked[i];
    at(number).kind = kinds[i];
    const bool dense = travels_dense(kinds[i]);
    if (lasting && !dense) at(number).unit = add_unit();
    const auto [place, fresh] = of_unit.emplace(at(number).unit, kinds_.learned.size());
    if (fresh || !dense) {
      kinds_.learned.push_back({number});
    } else {
      kinds_.learned[place->second].push_back(number);
    }
    if (lasting) {
      join_unit(number);
      unit_of(at(number)).sent = true;
    } else {
      kinds_.passing.push_back(number);
    }
  }
  learn_nothing();
}

void ReducerState::learn_nothing() {
  kinds_.asked.clear();
  kinds_.heard = true;
}

std::vector<int> ReducerState::pending() const {
  std::vector<int> found;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (parameters_[i].pending) found.push_back(static_cast<int>(i));
  }
  return found;
}

void ReducerState::end_round() {
  for (const int number : kinds_.passing) at(number).kind = kUnknown;
  kinds_ = {};
  for (Unit& unit : units_) unit.sent = false;
  passes_ = 0;
  owed_ = open_ = due_ = false;
  failed_with_.clear();
  ++rounds_;
}

// --- between passes ---

void ReducerState::spoil(const std::string& why) {
  spoiled_ = why;
  for (Parameter& parameter : parameters_) parameter.has_base = parameter.settled = false;
}

void ReducerState::end_step() {
  rounds_ = 0;
  for (Parameter& parameter : parameters_) parameter.submitted = 0;
}

void ReducerState::forget() {
  pass_.number = kNoPass;
  passes_ = 0;
  owed_ = false;
  spoiled_.clear();
  for (Parameter& parameter : parameters_) parameter.settled = false;
  end_step();
}

}  // namespace hora::rounds
