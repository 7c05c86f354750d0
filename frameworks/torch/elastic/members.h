// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/elastic/step.h"

#include <hora/alike.h>
#include <hora/torch/elastic.h>

#include <functional>
#include <vector>

namespace hora::elastic {

/// Whether the ranks do again what has failed with this error, after a change.
[[nodiscard]] bool is_of_a_change(const Runtime& hora, const Error& error);

/// The ranks of a training. When they change, those that have joined get the state from one that has it.
///
/// A process that hrun has started while the job runs is alone at first, as rank 0 of 1. It prepares itself,
/// and then joins the others at the same place of the program: before a step. Refers to the Runtime.
class Members {
 public:
  /// The state that the members of a training share.
  struct State {
    /// Names with texts that are the same on two processes only if one can take the state of the other.
    std::function<std::vector<Item>()> description;
    /// Gives the state of this rank to all ranks. All of them call it.
    std::function<void(int root)> give;
    /// Waits until what was given is there. Throws Error.
    std::function<void()> await;
    /// The job goes on with other ranks.
    std::function<void()> begin_generation;
  };
  Members(Runtime& hora, State state);

  [[nodiscard]] Who who() const;
  /// Gives the state of rank 0 to all. All ranks call it.
  void give_to_all();
  /// Joins the others, if this process is alone.
  void join();
  /// Before a step: takes in those that wait to join, and lets those go that are to leave.
  void begin_step();
  /// No step follows here: processes that join wait until one does.
  void end_steps();
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
  [[nodiscard]] bool is_alone() const { return hora_.is_elastic() && hora_.generation() == 0; }

  Runtime& hora_;
  State state_;
  bool joins_;  // whether the others, which train, give the state to this process
  Who who_;     // as of the last change that this training knows
};

}  // namespace hora::elastic
