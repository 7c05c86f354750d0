// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/rounds/round.h"

#include "test/frameworks/rounds/simulated_ranks.h"

#include <memory>
#include <optional>

namespace hora::rounds {

/// An error of a round. `elsewhere`: only because another rank had no gradients.
struct Failure : std::runtime_error {
  Failure(const std::string& why, bool is_elsewhere) : std::runtime_error(why), elsewhere(is_elsewhere) {}
  bool elsewhere;
};

/// The surroundings of the optimizers of one rank.
struct SimulatedRank {
  int rank;
  Turns& turns;
  Exchange& exchange;
  bool overlaps;
  bool lasting;  // all ranks learn the kinds of gradients, none has joined

  void wait_for(const Exchange::Ticket& ticket) const {
    turns.wait(rank, [this, ticket] { return exchange.is_done(ticket); });
  }
  void yield() const {
    turns.wait(rank, [] { return true; });
  }
};

/// An adapter whose gradients are numbers.
class SimulatedOptimizer {
 public:
  SimulatedOptimizer(const SimulatedRank& rank, const std::string& label, const std::vector<int>& units,
                     const std::vector<int>& kinds, bool kinds_known, int passes_per_round)
      : state(label, passes_per_round), rank_(rank) {
    for (const int unit : units) {
      while (units_ <= unit) units_ = state.units().add_unit() + 1;
      const int kind = kinds_known ? kDense : kinds[slots_.size()];
      const auto name = "p" + std::to_string(slots_.size());
      state.add_parameter(name, unit, kinds_known ? kDense : kUnknown);
      slots_.push_back({.kind = kind});
    }
  }

  /// backward() adds to the gradient of a parameter. Returns whether this was the first one of the pass.
  bool add(int parameter, int pass, long value) {
    Slot& slot = at(parameter);
    bool first = false;
    for (Before todo; (todo = state.before(parameter, pass)) != Before::nothing;) {
      if (todo == Before::begin) {
        state.begin(pass, rank_.overlaps);
        first = true;
      } else if (todo == Before::settle) {
        for (const int each : state.pending_with(parameter)) settle(each);
      } else if (state.touch(parameter, slot.gradient.has_value(), true)) {
        slot.base = std::exchange(slot.gradient, std::nullopt);
      }
    }
    slot.gradient = slot.gradient.value_or(0) + value;
    if (state.after(parameter, pass, true) == After::submit) submit(state.units().members_with(parameter));
    return first;
  }

  void synchronize();
  void zero_grad();

  [[nodiscard]] const std::optional<long>& gradient(int parameter) { return at(parameter).gradient; }
  [[nodiscard]] int size() const { return static_cast<int>(slots_.size()); }
  /// The next submission of the parameter is refused, as that of a gradient that was converted.
  void spoil_gradient(int parameter) { at(parameter).refused = true; }

  void carry_out(const Action& action, Round& round) {
    switch (action.kind) {
      case Action::Kind::adopt: break;
      case Action::Kind::submit: all_of(action.units, [this](const auto& unit) { submit(unit); }); break;
      case Action::Kind::ask: return ask(action.parameters);
      case Action::Kind::look:
        if (rank_.exchange.is_done(*question_)) round.answered();
        break;
      case Action::Kind::pause: return rank_.yield();
      case Action::Kind::learn: return learn();
      case Action::Kind::settle:
        all_of(action.parameters, [this](int parameter) { settle(parameter); });
        break;
      case Action::Kind::spoil:
        for (Slot& slot : slots_) slot.gradient = slot.base = std::nullopt;
    }
  }

  ReducerState state;

 private:
  struct Slot {
    int kind;
    std::optional<long> gradient = {};
    std::optional<long> base = {};
    std::optional<Exchange::Ticket> pending = {};
    bool refused = false;
  };
  Slot& at(int parameter) { return slots_[static_cast<std::size_t>(parameter)]; }

  template <typename List, typename Do>
  static void all_of(const List& list, const Do& action) {
    std::optional<Failure> first;
    for (const auto& each : list) {
      try {
        action(each);
      } catch (const Failure& failure) {
        if (!first) first = failure;
      }
    }
    if (first) throw Failure(*first);
  }

  void submit(const std::vector<int>& parameters) {
    std::vector<Brought> all;
    for (const int parameter : parameters) all.push_back(bring(parameter));
    for (std::size_t i = 0; i < all.size(); ++i) {
      at(parameters[i]).pending = rank_.exchange.submit(rank_.rank, state.name_of(parameters[i]), all[i]);
    }
    state.submitted(parameters);
  }

  Brought bring(int parameter) {
    Slot& slot = at(parameter);
    switch (state.bring(parameter, slot.gradient.has_value(), true)) {
      case Bring::stand_in: return {.failed_with = state.failed_with()};
      case Bring::set_aside: slot.base = slot.gradient; return {};
      case Bring::nothing: return {};
      case Bring::gradient: break;
    }
    if (std::exchange(slot.refused, false)) throw Failure("a gradient cannot be sent", false);
    return {.values = {*slot.gradient}, .present = true};
  }

  void settle(int parameter) {
    Slot& slot = at(parameter);
    rank_.wait_for(slot.pending.value());
    const Brought& result = rank_.exchange.result(*std::exchange(slot.pending, std::nullopt));
    const auto base = std::exchange(slot.base, std::nullopt);
    if (!result.failed_with.empty()) {
      state.lost(parameter);
      throw Failure(result.failed_with, true);
    }
    const auto then = state.settled(parameter, result.present, slot.gradient.has_value());
    if (then != Settle::leave) slot.gradient = result.values[0] + (then == Settle::add ? base.value() : 0);
  }

  void ask(const std::vector<int>& parameters) {
    Brought question{.present = true, .failed_with = state.failed_with()};
    for (const int parameter : parameters) {
      question.values.push_back(at(parameter).gradient ? at(parameter).kind : 0);
      question.values.push_back(at(parameter).gradient ? 1 : 0);
    }
    question_ = rank_.exchange.submit(rank_.rank, state.numbered("kinds"), question);
    state.units().asked(parameters);
  }

  void learn() {
    rank_.wait_for(*question_);
    const Brought& answer = rank_.exchange.result(*std::exchange(question_, std::nullopt));
    if (!answer.failed_with.empty()) throw Failure(answer.failed_with, true);
    std::vector<int> kinds;
    for (std::size_t i = 0; i < answer.values.size(); i += 2) {
      const long having = answer.values[i + 1];
      kinds.push_back(having == 0 ? kUnknown : static_cast<int>(answer.values[i] / having));
    }
    state.units().learn(kinds, rank_.lasting);
  }

  const SimulatedRank& rank_;
  std::vector<Slot> slots_;
  std::optional<Exchange::Ticket> question_;
  int units_ = 0;
};

/// Makes a round of each. Throws the first error; if this rank `knows` that its pass has failed, none that
/// comes from that.
inline void make_rounds(const std::vector<SimulatedOptimizer*>& optimizers, bool knows = false) {
  std::vector<ReducerState*> states;
  for (auto* optimizer : optimizers) states.push_back(&optimizer->state);
  Round round(states);
  std::optional<Failure> first;
  while (const auto action = round.next()) {
    try {
      optimizers[action->reducer]->carry_out(*action, round);
    } catch (const Failure& failure) {
      if (!first && !(knows && failure.elsewhere)) first = failure;
      round.failed(failure.what(), failure.elsewhere);
    }
  }
  if (first) throw Failure(*first);
}

inline void SimulatedOptimizer::synchronize() {
  if (!state.spoiled().empty()) throw Failure(state.spoiled(), true);
  bool own = false;
  for (const int i : state.unsettled()) own = own || gradient(i);
  if (own || state.owes_round()) make_rounds({this});
}

inline void SimulatedOptimizer::zero_grad() {
  if (state.abandon()) make_rounds({this}, true);
  state.forget();
  for (Slot& slot : slots_) slot.gradient = std::nullopt;
}

}  // namespace hora::rounds
