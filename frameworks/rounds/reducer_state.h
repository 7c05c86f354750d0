// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/rounds/gradient_state.h"
#include "frameworks/rounds/units.h"

#include <string>
#include <vector>

namespace hora::rounds {

/// The answers of `before`: what the hook that runs before backward() adds to a gradient must do. After each
/// answer but `nothing` the hook calls `before` again.
enum class Before {
  nothing,  ///< backward() may go on
  begin,    ///< a pass begins: call `begin`; if that is true, let autograd call back at the end
  settle,   ///< wait for all reductions in `pending_with`
  look,     ///< look at the gradient, and call `touch`
};

/// The answers of `after`: what the hook that runs after backward() has added to a gradient must do.
enum class After {
  nothing,     ///< backward() may go on
  begin,       ///< as in Before; then call `after` again
  place,       ///< copy the gradient to where it is reduced, so autograd can use its memory again
  submit,      ///< submit all members of the parameter's unit
  unexpected,  ///< an error: the first hook did not run, as the parameter was converted after it was added
};

/// The state of one optimizer whose gradients the ranks reduce in rounds.
///
/// A round reduces what each rank has added to its gradients since the last round, each gradient once. A pass
/// of backward() that reduces is one round. Hooks submit units as they become complete. The end of the pass
/// submits the rest, and waits for all. So all ranks make the same rounds, whichever parameters each of them
/// uses.
///
/// If a pass fails on this rank, its round must still be made, because other ranks wait for it. This rank
/// then submits stand-ins with the reason, so the round fails on all ranks. The last unit of a pass always
/// waits for the end of the pass, so one unit is left that can tell the others.
///
/// The names of tensors contain the number of rounds since the last step. Ranks that make different rounds
/// therefore wait for each other, and do not add gradients of different passes. The stall warning names these
/// ranks.
///
/// The object only keeps state; it has no lock. Its adapter makes all calls one after the other, under a lock
/// of its own (Python: the interpreter lock). The adapter calls a function that notes an action after it has
/// done the action. So an adapter that is interrupted (Ctrl-C) can ask again, and gets the rest.
class ReducerState {
 public:
  /// `label`: the beginning of the names of all tensors. `passes_per_round`: see `set_passes_per_round`.
  /// `sparse_as_dense`: sparse gradients are reduced as dense ones.
  explicit ReducerState(std::string label, int passes_per_round = 1, bool sparse_as_dense = false);

  // --- parameters ---

  [[nodiscard]] const std::string& label() const { return label_; }

  /// The parameters in their units, and the kinds of their gradients.
  [[nodiscard]] Units& units() { return units_; }
  /// Adds a parameter to a unit, as Units::add_parameter does. Returns the number of the parameter.
  int add_parameter(std::string name, int unit, int kind = kUnknown);
  /// The parameters whose gradients are not settled (GradientState::is_settled), ascending.
  [[nodiscard]] std::vector<int> unsettled() const;
  /// The name under which the gradient is submitted next: "gradient.0.w (pass 2)".
  [[nodiscard]] std::string name_of(int parameter) const;
  /// The name of a tensor of the whole round, such as "kinds".
  [[nodiscard]] std::string numbered(const std::string& name) const { return numbered_as(name, rounds_); }

  // --- passes of backward() ---

  /// Sets whether passes only add to the gradients and make no round (Python: `no_sync`).
  void set_accumulating(bool accumulating) { accumulating_ = accumulating; }
  [[nodiscard]] bool is_accumulating() const { return accumulating_; }
  /// Sets how many passes add up before a round. Passes that were counted already stay counted, until
  /// `restart_count`.
  void set_passes_per_round(int passes) { passes_per_round_ = passes; }
  [[nodiscard]] int passes_per_round() const { return passes_per_round_; }
  /// Begins to count passes anew, so the next one is the first. Does not change `is_owed`.
  void restart_count() { passes_ = 0; }

  /// The pass under way, by autograd's number; kNoPass if there is none.
  [[nodiscard]] int pass() const { return pass_.number; }
  static constexpr int kNoPass = -1;

  /// Begins a pass, when its first hook runs. `overlaps`: reductions run while backward() does. Returns false
  /// if another hook of the pass has begun it already.
  bool begin(int pass, bool overlaps);
  /// The next thing to do before backward() adds to a gradient.
  [[nodiscard]] Before before(int parameter, int pass);
  /// The parameters in the unit of `parameter` whose reductions are under way.
  [[nodiscard]] std::vector<int> pending_with(int parameter) const;
  /// As GradientState::touch, for a settled gradient.
  [[nodiscard]] bool touch(int parameter, bool present, bool unchanged) {
    return at(parameter).touch(present, unchanged);
  }
  /// The next thing to do after backward() has added to a gradient. `on_host`: the gradient is in the host's
  /// memory.
  [[nodiscard]] After after(int parameter, int pass, bool on_host);

  /// Ends the pass of this number. Returns whether a round is due; false if the pass is not under way.
  [[nodiscard]] bool leave(int pass);
  /// Notes that a pass has failed that would have added to gradients of this optimizer. Only the first reason
  /// counts. Returns whether other ranks wait for the round of this pass.
  bool fail(const std::string& why);
  /// Whether other ranks wait for the round of a pass for which `fail` was called. False again after that
  /// round.
  [[nodiscard]] bool is_due() const { return due_; }
  /// Whether reductions run while the pass does.
  [[nodiscard]] bool overlaps() const { return pass_.overlaps; }

  /// Notes the reason of a failure within a pass whose end is not known yet.
  void note_failure(const std::string& why);
  /// Ends a pass that may have begun and was not ended. Returns whether a round must be made up.
  [[nodiscard]] bool abandon();
  /// Why this rank has no gradients for the next round; empty if it has.
  [[nodiscard]] const std::string& failed_with() const { return failed_with_; }

  // --- reductions ---

  /// As GradientState::bring. Call it for each parameter of a unit that is about to be submitted.
  [[nodiscard]] Bring bring(int parameter, bool present, bool unchanged) {
    return at(parameter).bring(present, unchanged, !failed_with_.empty());
  }
  /// Notes that these parameters were submitted together.
  void submitted(const std::vector<int>& parameters);
  /// As GradientState::settled.
  [[nodiscard]] Settle settled(int parameter, bool contributed, bool present) {
    return at(parameter).settled(contributed, present);
  }
  /// As GradientState::lost.
  void lost(int parameter) { at(parameter).lost(); }

  // --- rounds; Round says when ---

  /// Whether a round must be made before the next step, even if this rank has no gradients of its own.
  [[nodiscard]] bool owes_round() const;
  /// The number of rounds since the last step.
  [[nodiscard]] int rounds() const { return rounds_; }
  /// Whether a pass has only accumulated since the last round, on every rank.
  [[nodiscard]] bool is_owed() const { return owed_; }
  /// Notes that a round begins.
  void open_round() { open_ = true; }
  /// The parameters whose reductions are under way.
  [[nodiscard]] std::vector<int> pending() const;
  /// Notes that the round has ended.
  void end_round();

  // --- between passes ---

  /// Notes that a rank had no gradients for the round that has ended. No gradient of this round counts.
  void spoil(const std::string& why);
  /// Why the last round has failed on all ranks; empty if it has not.
  [[nodiscard]] const std::string& spoiled() const { return spoiled_; }
  /// Notes that the optimizer has made a step. Later gradients belong to the next step.
  void end_step();
  /// Notes that all gradients are about to be cleared. Reduced values do not count any more.
  void forget();
  /// Notes that the job goes on with other ranks, and that all gradients were cleared. Nothing is under way,
  /// and the agreements of the former ranks do not count any more.
  void begin_generation();

 private:
  struct Pass {
    int number = kNoPass;
    bool reducing = false;  // whether it ends with a round
    bool overlaps = true;   // whether that round runs while the pass does
  };

  [[nodiscard]] const GradientState& at(int parameter) const {
    return gradients_[static_cast<std::size_t>(parameter)];
  }
  [[nodiscard]] GradientState& at(int parameter) { return gradients_[static_cast<std::size_t>(parameter)]; }
  [[nodiscard]] std::string numbered_as(const std::string& name, unsigned rounds) const;

  std::string label_;
  std::vector<std::string> names_ = {};  // of the parameters
  std::vector<GradientState> gradients_ = {};
  Units units_;

  bool accumulating_ = false;
  int passes_per_round_;
  int passes_ = 0;                // since the last round
  Pass pass_ = {};                // the one under way
  unsigned rounds_ = 0;           // since the last step
  bool owed_ = false;             // a pass has only accumulated
  bool open_ = false;             // a round has begun and not ended
  std::string failed_with_ = {};  // why this rank has no gradients
  bool due_ = false;              // other ranks wait for the round of a failed pass
  std::string spoiled_ = {};      // why the last round has failed on all ranks
};

}  // namespace hora::rounds
