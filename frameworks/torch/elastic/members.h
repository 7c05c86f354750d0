// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/state/state_transfer.h"
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
/// large parameters while all compute the next step.
///
/// A process that hrun has started while the job runs is alone at first, as rank 0 of 1. It prepares itself,
/// and then joins the others at the same place of the program: before a step. Refers to the Runtime.
class Members {
 public:
  /// The state that the members of a training share.
  struct State {
    /// Names with texts that are the same on two processes only if one can take the state of the other.
    std::function<std::vector<Item>()> description;
    /// Gives the state of rank `root` to all ranks, but for what `later` has. All of them call it.
    std::function<void(int root, const std::vector<torch::Tensor>& later)> give;
    /// The tensors that may be given while the ranks compute, as rank `root` finds. All of them call it.
    std::function<std::vector<torch::Tensor>(int root)> later;
    /// Waits until what was given is there. Throws Error.
    std::function<void()> await;
    /// The job goes on with other ranks.
    std::function<void()> begin_generation;
  };
  Members(Runtime& hora, State state);

  [[nodiscard]] Who who() const;
  /// Gives the state of rank 0 to all. All ranks call it.
  void give_to_all();
  /// Joins the others, if this process is alone. Returns when it has the state.
  void join();
  /// Before a step: takes in those that wait to join, and lets those go that are to leave.
  void begin_step();
  /// No step follows here: processes that join wait until one does.
  void end_steps();
  /// The number of this rank among those that share the next step, and how many these are; nothing: it does
  /// not share it, as it has no state before, or is a hot spare.
  struct Share {
    int number;
    int ranks;
  };
  [[nodiscard]] std::optional<Share> share() const;
  /// Returns when this process has the state, if others give it. Throws Error.
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
  void all_have_state();
  [[nodiscard]] bool is_alone() const { return hora_.is_elastic() && hora_.generation() == 0; }

  Runtime& hora_;
  State state_;
  bool needs_state_;         // whether the others, which train, give the state to this process
  std::vector<bool> joins_;  // by rank: whether it gets the state with the next step; empty: no rank does
  std::unique_ptr<state::StateTransfer> transfer_;  // of what is given later
  Who who_;                                         // as of the last change that this training knows
};

}  // namespace hora::elastic
