// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/round.h"

#include <algorithm>

namespace hora::rounds {
namespace {

constexpr const char* kReason = "gradients could not be reduced: ";
constexpr int kMostFailures = 2;  // once with gradients, once with the reason why there are none

}  // namespace

Round::Round(std::vector<ReducerState*> reducers) {
  for (std::size_t i = 0; i < reducers.size(); ++i) members_.push_back({.index = i, .state = reducers[i]});
  std::stable_sort(members_.begin(), members_.end(), [](const Member& left, const Member& right) {
    return left.state->label() < right.state->label();
  });
}

std::optional<Action> Round::next() {
  for (Member& member : members_) {
    if (auto action = open(member)) return action;
  }
  if (auto action = fill()) return action;
  for (Member& member : members_) {
    if (auto action = close(member)) return action;
  }
  for (Member& member : members_) {
    if (auto action = spoil(member)) return action;
  }
  return std::nullopt;
}

Action Round::act(Member& member, Action::Kind kind) {
  last_ = &member;
  kind_ = kind;
  return {.kind = kind, .reducer = member.index};
}

std::optional<Action> Round::open(Member& member) {
  if (member.step == Step::adopt) {
    member.state->open_round();
    member.step = Step::submit;
    return act(member, Action::Kind::adopt);
  }
  if (member.step == Step::submit) {
    if (auto action = submit(member, Step::ask)) return action;
  }
  if (member.step != Step::ask) return std::nullopt;
  auto parameters = member.state->units().unasked();
  if (parameters.empty() || member.failures == kMostFailures) {
    member.step = Step::wait;
    return std::nullopt;
  }
  Action action = act(member, Action::Kind::ask);
  action.parameters = std::move(parameters);
  return action;
}

/// Returns the action to submit. Goes on to the step `then` if everything is submitted, or cannot be
/// submitted.
std::optional<Action> Round::submit(Member& member, Step then) {
  auto units = member.state->units().unsubmitted();
  if (units.empty() || member.failures == kMostFailures) {
    member.step = then;
    return std::nullopt;
  }
  Action action = act(member, Action::Kind::submit);
  action.units = std::move(units);
  return action;
}

/// Submits the gradients that waited for their kinds, as soon as the kinds are known.
std::optional<Action> Round::fill() {
  for (Member& member : members_) {
    if (member.step == Step::wait && !member.state->units().awaits_kinds()) member.step = Step::fill;
    if (member.step != Step::fill) continue;
    if (auto action = submit(member, Step::settle)) return action;
  }
  return wait();
}

/// Blocks only for the last exchange. Before that it looks at one after the other, because another rank may
/// not have begun all of them.
std::optional<Action> Round::wait() {
  const auto waits = [](const Member& member) { return member.step == Step::wait; };
  if (std::count_if(members_.begin(), members_.end(), waits) > 1) {
    const auto asked = std::find_if(members_.begin(), members_.end(), [&](const Member& member) {
      return waits(member) && (member.answered || !member.looked);
    });
    if (asked == members_.end()) {
      for (Member& member : members_) member.looked = false;
      return act(members_.front(), Action::Kind::pause);
    }
    asked->looked = true;
    return act(*asked, asked->answered ? Action::Kind::learn : Action::Kind::look);
  }
  const auto only = std::find_if(members_.begin(), members_.end(), waits);
  if (only == members_.end()) return std::nullopt;
  return act(*only, Action::Kind::learn);
}

std::optional<Action> Round::close(Member& member) {
  if (member.step == Step::settle) {
    member.step = Step::end;
    if (auto parameters = member.state->pending(); !parameters.empty()) {
      Action action = act(member, Action::Kind::settle);
      action.parameters = std::move(parameters);
      return action;
    }
  }
  if (member.step == Step::end) {
    member.state->end_round();
    member.step = Step::spoil;
  }
  return std::nullopt;
}

std::optional<Action> Round::spoil(Member& member) {
  if (member.step != Step::spoil) return std::nullopt;
  member.step = Step::over;
  if (member.spoiled.empty()) return std::nullopt;
  member.state->spoil(member.spoiled);
  return act(member, Action::Kind::spoil);
}

void Round::failed(const std::string& why, bool elsewhere) {
  switch (kind_) {
    case Action::Kind::submit:
    case Action::Kind::ask: ++last_->failures; [[fallthrough]];
    case Action::Kind::adopt: last_->state->note_failure(kReason + why); break;
    case Action::Kind::learn: last_->state->units().learn_nothing(); [[fallthrough]];
    case Action::Kind::settle:
      if (elsewhere && last_->spoiled.empty()) last_->spoiled = why;
      break;
    case Action::Kind::look:
    case Action::Kind::pause:
    case Action::Kind::spoil: break;
  }
}

}  // namespace hora::rounds
