// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/reducer_state.h"

#include <utility>

namespace hora::rounds {
namespace {

constexpr unsigned kMostNumbers = 8;  // a tensor has this many names, which then repeat

}  // namespace

ReducerState::ReducerState(std::string label, int passes_per_round, bool sparse_as_dense)
    : label_(std::move(label)), units_(sparse_as_dense), passes_per_round_(passes_per_round) {}

// --- parameters ---

int ReducerState::add_parameter(std::string name, int unit, int kind) {
  names_.push_back(std::move(name));
  gradients_.emplace_back();
  units_.add_parameter(unit, kind);
  return static_cast<int>(gradients_.size()) - 1;
}

std::string ReducerState::name_of(int parameter) const {
  return numbered_as(names_[static_cast<std::size_t>(parameter)], at(parameter).times_submitted());
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
  pass_ = {
      .number = pass, .reducing = !accumulating_ && passes_ + 1 >= passes_per_round_, .overlaps = overlaps};
  units_.begin_pass();
  return true;
}

Before ReducerState::before(int parameter, int pass) {
  if (pass != pass_.number) return Before::begin;
  const GradientState& gradient = at(parameter);
  if (gradient.is_pending()) {
    units_.submit_again(parameter);
    return Before::settle;
  }
  return gradient.is_settled() ? Before::look : Before::nothing;
}

std::vector<int> ReducerState::pending_with(int parameter) const {
  std::vector<int> found;
  if (!units_.is_member(parameter)) found.push_back(parameter);
  for (const int member : units_.members_with(parameter)) {
    if (at(member).is_pending()) found.push_back(member);
  }
  return found;
}

After ReducerState::after(int parameter, int pass, bool on_host) {
  if (pass != pass_.number) return After::begin;
  if (at(parameter).is_settled()) return After::unexpected;
  const int kind = units_.kind(parameter);
  if (!pass_.reducing || !failed_with_.empty() || kind == kUnknown) return After::nothing;
  if (!pass_.overlaps && on_host) return kind == kDense ? After::place : After::nothing;
  return units_.completes(parameter) ? After::submit : After::nothing;
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

void ReducerState::submitted(const std::vector<int>& parameters) {
  for (const int each : parameters) at(each).submitted();
  units_.submitted(parameters);
}

// --- rounds ---

bool ReducerState::owes_round() const {
  return rounds_ == 0 || owed_ || open_ || !failed_with_.empty() || !pending().empty();
}

std::vector<int> ReducerState::unsettled() const {
  std::vector<int> found;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (!gradients_[i].is_settled()) found.push_back(static_cast<int>(i));
  }
  return found;
}

std::vector<int> ReducerState::pending() const {
  std::vector<int> found;
  for (std::size_t i = 0; i < gradients_.size(); ++i) {
    if (gradients_[i].is_pending()) found.push_back(static_cast<int>(i));
  }
  return found;
}

void ReducerState::end_round() {
  units_.end_round();
  passes_ = 0;
  owed_ = open_ = due_ = false;
  failed_with_.clear();
  ++rounds_;
}

// --- between passes ---

void ReducerState::spoil(const std::string& why) {
  spoiled_ = why;
  for (GradientState& gradient : gradients_) gradient.forget();
}

void ReducerState::end_step() {
  rounds_ = 0;
  for (GradientState& gradient : gradients_) gradient.end_step();
}

void ReducerState::forget() {
  pass_.number = kNoPass;
  passes_ = 0;
  owed_ = false;
  spoiled_.clear();
  for (GradientState& gradient : gradients_) gradient.forget();
  end_step();
}

void ReducerState::begin_generation() {
  for (GradientState& gradient : gradients_) gradient.lost();
  units_.forget_kinds();
  open_ = due_ = false;
  failed_with_.clear();
  forget();
}

}  // namespace hora::rounds
