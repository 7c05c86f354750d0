// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/rounds/gradient_state.h"
#include "frameworks/rounds/units.h"

#include <string>
#include <vector>

namespace hora::rounds {

/// The answers to the hook that runs before backward() adds to a gradient. The hook asks again after each
/// answer but `nothing`.
enum class Before {
  nothing,  ///< backward() may go on
  begin,    ///< a pass begins: call `begin`, and if that is true have autograd call at its end
  settle,   ///< settle everything in `pending_with`
  look,     ///< look at the gradient, and call `touch`
};

/// The answers to the hook that runs after backward() has added to a gradient.
enum class After {
  nothing,     ///< backward() may go on
  begin,       ///< as in Before; then ask again
  place,       ///< copy the gradient to where it is reduced, so autograd can use its memory again
  submit,      ///< submit all members of the parameter's unit
  unexpected,  ///< the hook before did not run: the parameter was converted after it was adopted
};

/// The state of one optimizer whose gradients the ranks reduce in rounds.
///
/// A round reduces what every rank has gathered in its gradients since the round before, each gradient once.
/// A pass of backward() that reduces is one round. Hooks submit units as they become complete, and the end of
/// the pass submits the rest and waits for all. So all ranks make the same rounds, whichever parameters each
/// of them uses.
///
/// A pass that fails on this rank leaves a round to be made up. Its gradients are then submitted as stand-ins
/// with the reason, so the round fails on all ranks. The last unit of a pass always waits for the end of the
/// pass, so there is one that can tell the others.
///
/// Rounds since the last step are numbered in the names of tensors. Ranks that are out of step with each
/// other wait, and are named by the stall warning, instead of adding up gradients of different passes.
///
/// The object does nothing itself and has no lock. Its adapter makes all calls one after the other, under a
/// lock of its own (Python: the interpreter lock). A call that tells of something is made after it was done.
/// So an adapter that is interrupted (Ctrl-C) can ask again, and gets the rest.
class ReducerState {
 public:
  /// `label` begins the names of all tensors. `sparse_as_dense`: sparse gradients are reduced as dense ones.
  explicit ReducerState(std::string label, int passes_per_round = 1, bool sparse_as_dense = false);

  // --- parameters ---

  [[nodiscard]] const std::string& label() const { return label_; }

  /// The parameters in their units, and the kinds of their gradients.
  [[nodiscard]] Units& units() { return units_; }
  /// Adds a parameter, as `Units` does. Returns its number.
  int add_parameter(std::string name, int unit, int kind = kUnknown);
  [[nodiscard]] bool is_settled(int parameter) const { return at(parameter).is_settled(); }
  /// The name of the reduction that is submitted next: "gradient.0.w (pass 2)".
  [[nodiscard]] std::string name_of(int parameter) const;
  /// The name of a tensor of the whole round, such as "kinds".
  [[nodiscard]] std::string numbered(const std::string& name) const { return numbered_as(name, rounds_); }

  // --- passes of backward() ---

  void set_accumulating(bool accumulating) { accumulating_ = accumulating; }
  [[nodiscard]] bool is_accumulating() const { return accumulating_; }
  /// How many passes add up before a round. Passes that were counted stay so, unless `restart_count`.
  void set_passes_per_round(int passes) { passes_per_round_ = passes; }
  [[nodiscard]] int passes_per_round() const { return passes_per_round_; }
  /// The next pass is the first one of those that add up. A round that is owed stays so.
  void restart_count() { passes_ = 0; }

  /// The pass under way, by autograd's number, or kNoPass.
  [[nodiscard]] int pass() const { return pass_.number; }
  static constexpr int kNoPass = -1;

  /// The first hook of a pass has run. `overlaps`: reductions go on while backward() does. Returns false if
  /// another hook of the pass was first.
  bool begin(int pass, bool overlaps);
  [[nodiscard]] Before before(int parameter, int pass);
  /// Those with reductions under way in the unit of a parameter.
  [[nodiscard]] std::vector<int> pending_with(int parameter) const;
  /// backward() is about to add to a settled gradient. `present`: there is one. `unchanged`: nobody has
  /// written to it since the last step. Returns whether it is to be set aside, and cleared.
  [[nodiscard]] bool touch(int parameter, bool present, bool unchanged) {
    return at(parameter).touch(present, unchanged);
  }
  [[nodiscard]] After after(int parameter, int pass, bool on_host);

  /// The pass of this number has ended. Returns whether a round is due.
  [[nodiscard]] bool leave(int pass);
  /// The pass that would have reached this optimizer has failed. The first reason counts. Returns whether the
  /// other ranks wait for its round, as `is_due` does until that has ended.
  bool fail(const std::string& why);
  [[nodiscard]] bool is_due() const { return due_; }
  /// Whether reductions go on while the pass does.
  [[nodiscard]] bool overlaps() const { return pass_.overlaps; }

  /// Something has failed within a pass; the end of the pass is not known yet.
  void note_failure(const std::string& why);
  /// No pass is under way, although one may have begun. Returns whether a round is to be made up.
  [[nodiscard]] bool abandon();
  /// Why this rank has no gradients for the next round; empty if it has.
  [[nodiscard]] const std::string& failed_with() const { return failed_with_; }

  // --- reductions ---

  /// Asked for each parameter of a unit that is about to be submitted. The arguments are those of `touch`.
  [[nodiscard]] Bring bring(int parameter, bool present, bool unchanged) {
    return at(parameter).bring(present, unchanged, !failed_with_.empty());
  }
  /// These were submitted together.
  void submitted(const std::vector<int>& parameters);
  /// A reduction has ended well. `contributed`: a rank had a gradient. `present`: this rank has one.
  [[nodiscard]] Settle settled(int parameter, bool contributed, bool present) {
    return at(parameter).settled(contributed, present);
  }
  /// A reduction has failed. The base is dropped.
  void lost(int parameter) { at(parameter).lost(); }

  // --- rounds; Round says when ---

  /// Whether all ranks have a round to make, if none of them has gradients of its own.
  [[nodiscard]] bool owes_round() const;
  /// Since the last step.
  [[nodiscard]] int rounds() const { return rounds_; }
  /// A pass has only accumulated, on every rank.
  [[nodiscard]] bool is_owed() const { return owed_; }
  void open_round() { open_ = true; }
  /// The parameters whose reductions are under way.
  [[nodiscard]] std::vector<int> pending() const;
  void end_round();

  // --- between passes ---

  /// A rank had no gradients for the round that has ended. No gradient of it counts.
  void spoil(const std::string& why);
  /// Why the last round has failed on all ranks; empty if it has not.
  [[nodiscard]] const std::string& spoiled() const { return spoiled_; }
  /// Gradients from now on belong to the next step.
  void end_step();
  /// Gradients are about to be cleared. Nothing of what was reduced counts any more.
  void forget();

 private:
  struct Pass {
    int number = kNoPass;
    bool reducing = false;  // it ends with a round
    bool overlaps = true;   // that round, with the pass
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
