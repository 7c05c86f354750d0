// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/rounds/reducer_state.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace hora::rounds {

/// One step of a round, for the adapter to carry out.
struct Action {
  enum class Kind : std::uint8_t {
    adopt,   ///< take in parameters that were added or unfrozen, on all ranks alike
    submit,  ///< submit `units`, each list together, and tell `submitted` of each; all, also after an error
    ask,     ///< submit the question for the kinds of `parameters`, and call `asked`
    look,    ///< call `Round::answered` if `learn` would not wait
    pause,   ///< let other threads and ranks work for a moment
    learn,   ///< wait for the kinds, and call `learn`
    settle,  ///< wait for `parameters`, and call `settled` or `lost` for each; all, also after an error
    spoil,   ///< clear all gradients: some are this rank's own, others are reduced
  };

  Kind kind;
  std::size_t reducer;  ///< its index in the round
  std::vector<std::vector<int>> units = {};
  std::vector<int> parameters = {};
};

/// One round of each of several optimizers, at the same time.
///
/// Another rank's pass may reach the optimizers in another order, or only some of them, and come to the
/// others later. So everything that needs no answer is submitted for all optimizers first, and none is waited
/// for while another could go on. No rank waits for one round while another rank waits for a second one.
///
/// Errors of `adopt`, `submit` and `ask` are this rank's own. A unit that is not submitted then is submitted
/// with the reason, so the round fails on all ranks. A second error leaves it unsubmitted.
class Round {
 public:
  /// The states are those of the optimizers, which outlive the round.
  explicit Round(std::vector<ReducerState*> reducers);

  /// The next action; none if all rounds have ended. After an interruption a new Round has the rest.
  [[nodiscard]] std::optional<Action> next();
  /// The answer that the last action looked for is there.
  void answered() { last_->answered = true; }
  /// The last action has failed. `elsewhere`: only because a rank had no gradients.
  void failed(const std::string& why, bool elsewhere);

 private:
  enum class Step : std::uint8_t { adopt, submit, ask, wait, fill, settle, end, spoil, over };
  struct Member {
    std::size_t index;
    ReducerState* state;
    Step step = Step::adopt;
    int failures = 0;          // to submit something
    bool looked = false;       // for the answer, in this turn
    bool answered = false;     // by all ranks
    std::string spoiled = {};  // why gradients are to be cleared
  };

  [[nodiscard]] std::optional<Action> open(Member& member);
  [[nodiscard]] std::optional<Action> submit(Member& member, Step then);
  [[nodiscard]] std::optional<Action> fill();
  [[nodiscard]] std::optional<Action> wait();
  [[nodiscard]] std::optional<Action> close(Member& member);
  [[nodiscard]] std::optional<Action> spoil(Member& member);
  [[nodiscard]] Action act(Member& member, Action::Kind kind);

  std::vector<Member> members_;  // in the order of their labels
  Member* last_ = nullptr;       // whose action was returned last
  Action::Kind kind_ = Action::Kind::pause;
};

}  // namespace hora::rounds
