// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/elastic/handover.h"
#include "frameworks/torch/elastic/step.h"

#include <hora/alike.h>
#include <hora/torch/elastic.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace hora::elastic {

/// Whether the ranks do again what has failed with this error, after a change.
[[nodiscard]] bool is_of_a_change(const Runtime& hora, const Error& error);

/// The ranks of a training. When they change, those that have joined get the state from those that have it:
/// what is large while all compute the next steps (see StateTransfer).
///
/// A process that hrun has started while the job runs is alone at first, as rank 0 of 1. It prepares itself,
/// and then joins the others at the same place of the program: before a step. Refers to the Runtime.
class Members {
 public:
  /// The state that the members of a training share.
  struct State {
    /// Names with texts that are the same on two processes only if one can take the state of the other.
    std::function<std::vector<Item>()> description;
    /// Gives the state of rank `root` to the ranks that need it. All ranks call it. `apart`: see Handover.
    std::function<std::vector<Unit>(int root, bool needs, bool apart)> give;
    /// Waits until what was given is there. Throws Error.
    std::function<void()> await;
    /// The job goes on with other ranks.
    std::function<void()> begin_generation;
  };
  Members(Runtime& hora, State state);

  [[nodiscard]] Who who() const;
  /// Gives the state of rank 0 to all. All ranks call it.
  void give_to_all();
  /// Joins the others, if this process is alone. Returns as `await_state`.
  void join();
  /// Before a step: takes in those that wait to join, lets those go that are to leave, and gives a part of
  /// the state to those that have joined.
  void begin_step();
  /// No step follows here: processes that join wait until one does, and those that have joined get the rest
  /// of the state.
  void end_steps();
  /// The number of this rank among those that share the next step, and how many these are; nothing: it does
  /// not share it, as it has no state before, or is a hot spare.
  struct Share {
    int number;
    int ranks;
  };
  [[nodiscard]] std::optional<Share> share() const;
  /// Returns when this process has the state, if others give it, unless parts of it come in the next steps.
  /// Throws Error.
  void await_state();
  /// Before the ranks vote for a step: see StateTransfer::confirm. Throws Error.
  void confirm();
  /// Votes for a step, unless it is void. Makes it if it counts, and else takes it back. Returns whether it
  /// counts.
  bool end_step(bool is_void, const std::function<void()>& make, const std::function<void()>& take_back);
  /// Calls a function until a call has ended on all ranks without a change.
  void retry(const std::function<void()>& function);

 private:
  /// Calls a function after which the ranks may be others.
  void change(const std::function<void()>& function);
  /// Takes in the changes that this training does not know.
  void follow();
  void next_generation();
  bool commit();
  void end_if_it_has_left(const std::function<void()>& function);
  void share_state();
  void begin_handover(bool in_parts);
  /// Gives the next part of the state, or the rest, if there is one.
  void go_on_giving(bool rest);
  void step_counts();
  void end_handover();
  [[nodiscard]] bool is_alone() const { return hora_.is_elastic() && hora_.generation() == 0; }

  Runtime& hora_;
  State state_;
  bool needs_state_;         // whether the others, which train, give the state to this process
  std::vector<bool> joins_;  // by rank: whether it gets the state; empty: no rank does
  int root_ = 0;             // the first rank that has it
  std::vector<Unit> units_;  // what is given while the ranks compute
  std::unique_ptr<state::StateTransfer> transfer_;        // of these; null: no rank gets the state
  std::optional<state::StateTransfer::Outcome> outcome_;  // of the last part; nothing: it is under way
  Who who_;                                               // as of the last change that this training knows
};

}  // namespace hora::elastic
