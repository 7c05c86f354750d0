// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/rounds/reducer_state.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hora::rounds {

/// One action of a round, which the adapter carries out. `Round::next` returns it.
struct Action {
  enum class Kind : std::uint8_t {
    adopt,   ///< add parameters that are new or were unfrozen, on all ranks alike
    submit,  ///< submit each list of `units` together, and call `submitted`; go on after an error
    ask,     ///< start the exchange of the kinds of `parameters` between ranks, and call `asked`
    look,    ///< call `Round::answered` if that exchange has ended
    pause,   ///< let other threads and ranks work for a moment
    learn,   ///< wait for the end of that exchange, and call `learn`
    settle,  ///< wait for each of `parameters`, and call `settled` or `lost`; go on after an error
    spoil,   ///< clear all gradients, as only some of them are reduced
  };

  Kind kind;
  std::size_t reducer;  ///< the index of the optimizer in the round
  std::vector<std::vector<int>> units = {};
  std::vector<int> parameters = {};
};

/// One round of each of several optimizers, all at the same time. The adapter calls `next` and carries out
/// the action, until there is none.
///
/// A pass on another rank may reach the optimizers in another order, or reach only some of them at first. So
/// everything that needs no answer is submitted first, for all optimizers. No optimizer is waited for while
/// another one could go on. So no rank waits for one round while another rank waits for a different one.
///
/// Errors of `adopt`, `submit` and `ask` are those of this rank alone. After such an error, the units that
/// were not submitted are submitted with the reason, so the round fails on all ranks. After a second error
/// they are not submitted.
class Round {
 public:
  /// `reducers`: the states of the optimizers, which must outlive the round.
  explicit Round(std::vector<ReducerState*> reducers);

  /// The next action; nothing if all rounds have ended. If the adapter is interrupted, it makes a new Round,
  /// which has the rest.
  [[nodiscard]] std::optional<Action> next();
  /// Notes that the exchange that the last action looked at has ended.
  void answered() { last_->answered = true; }
  /// Notes that the last action has failed. `elsewhere`: it failed only because a rank had no gradients.
  void failed(const std::string& why, bool elsewhere);

 private:
  enum class Step : std::uint8_t { adopt, submit, ask, wait, fill, settle, end, spoil, over };
  struct Member {
    std::size_t index;
    ReducerState* state;
    Step step = Step::adopt;
    int failures = 0;          // of `submit` and `ask`
    bool looked = false;       // whether `look` was returned in this turn
    bool answered = false;     // whether the exchange of kinds has ended
    std::string spoiled = {};  // why gradients must be cleared; empty: they need not be
  };

  [[nodiscard]] std::optional<Action> open(Member& member);
  [[nodiscard]] std::optional<Action> submit(Member& member, Step then);
  [[nodiscard]] std::optional<Action> fill();
  [[nodiscard]] std::optional<Action> wait();
  [[nodiscard]] std::optional<Action> close(Member& member);
  [[nodiscard]] std::optional<Action> spoil(Member& member);
  [[nodiscard]] Action act(Member& member, Action::Kind kind);

  std::vector<Member> members_;  // in the order of their labels, the same on all ranks
  Member* last_ = nullptr;       // the member of the action returned last
  Action::Kind kind_ = Action::Kind::pause;
};

}  // namespace hora::rounds
