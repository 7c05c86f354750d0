// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hora::rounds {

/// The form of a gradient, the same on all ranks: not known yet, dense, or else the number of its sparse
/// dimensions.
inline constexpr int kUnknown = 0;
inline constexpr int kDense = 255;

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

/// The contribution of this rank to the reduction of one gradient.
enum class Bring {
  nothing,    ///< no gradient: it counts as zeros
  stand_in,   ///< no gradient, because of `failed_with`: the reduction fails on all ranks
  set_aside,  ///< no gradient; the present one was reduced before, and becomes the base
  gradient,   ///< the gradient
};

/// The outcome for a gradient whose reduction has ended.
enum class Settle {
  leave,  ///< it stays as it is
  take,   ///< it is the reduced one
  add,    ///< it is the reduced one plus the base
};

/// The state of one optimizer whose gradients the ranks reduce in rounds.
///
/// A round reduces what every rank has gathered in its gradients since the round before, each gradient once.
/// A pass of backward() that reduces is one round. Hooks submit units as they become complete, and the end of
/// the pass submits the rest and waits for all. So all ranks make the same rounds, whichever parameters each
/// of them uses. A unit is a list of parameters that are reduced together, or not at all.
///
/// Only what is this rank's own is ever reduced. A gradient that is added to after it was reduced is set
/// aside as the *base*, and the reduced addition is added to that. A gradient is *settled* once its reduction
/// has ended, until backward() adds to it.
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

  /// Adds a unit without parameters. Returns its number.
  int add_unit();
  /// Adds a parameter to a unit. Returns its number. If the kind is unknown, the parameter becomes a member
  /// when all ranks have learned it; a sparse one then gets a unit of its own.
  int add_parameter(std::string name, int unit, int kind = kUnknown);

  [[nodiscard]] int kind(int parameter) const { return at(parameter).kind; }
  /// Whether gradients of a kind are reduced as dense ones.
  [[nodiscard]] bool travels_dense(int kind) const {
    return kind == kDense || (kind != kUnknown && sparse_as_dense_);
  }
  [[nodiscard]] bool is_settled(int parameter) const { return at(parameter).settled; }
  /// The parameters that are submitted with this one while backward() runs.
  [[nodiscard]] const std::vector<int>& members_with(int parameter) const;
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
  [[nodiscard]] bool touch(int parameter, bool present, bool unchanged);
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
  [[nodiscard]] Bring bring(int parameter, bool present, bool unchanged);
  /// These were submitted together.
  void submitted(const std::vector<int>& parameters);
  [[nodiscard]] bool is_pending(int parameter) const { return at(parameter).pending; }
  /// A reduction has ended well. `contributed`: a rank had a gradient. `present`: this rank has one.
  [[nodiscard]] Settle settled(int parameter, bool contributed, bool present);
  /// A reduction has failed. The base is dropped.
  void lost(int parameter);

  // --- rounds; Round says when ---

  /// Whether all ranks have a round to make, if none of them has gradients of its own.
  [[nodiscard]] bool owes_round() const;
  /// Since the last step.
  [[nodiscard]] int rounds() const { return rounds_; }
  /// A pass has only accumulated, on every rank.
  [[nodiscard]] bool is_owed() const { return owed_; }
  /// Whether a round has begun and not ended.
  [[nodiscard]] bool is_open() const { return open_; }
  void open_round() { open_ = true; }
  /// The parameters that the round still has to submit: each list together.
  [[nodiscard]] std::vector<std::vector<int>> unsubmitted() const;
  /// The parameters of whose kind the ranks are to tell each other; empty if they have.
  [[nodiscard]] std::vector<int> unasked() const;
  /// The ranks were asked for the kinds of these parameters.
  void asked(std::vector<int> parameters) { kinds_.asked = std::move(parameters); }
  [[nodiscard]] bool awaits_kinds() const { return !kinds_.asked.empty(); }
  /// The kinds of the parameters that were asked for. `lasting`: all ranks know them, so these parameters are
  /// submitted as they come from the next round on.
  void learn(const std::vector<int>& kinds, bool lasting);
  /// The question has failed.
  void learn_nothing();
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
  struct Parameter {
    std::string name;
    int unit;
    int kind;
    bool member = false;     // of its unit
    bool ready = false;      // its gradient has come in this pass
    bool pending = false;    // its reduction is under way
    bool absent = false;     // that has nothing from this rank
    bool has_base = false;   // what was reduced before is to be added
    bool settled = false;    // its gradient, if there is one, is the same on all ranks
    unsigned submitted = 0;  // how often, since the last step
  };
  struct Unit {
    std::vector<int> members = {};
    std::size_t ready = 0;  // of the members
    bool sent = false;      // in this round
  };
  struct Pass {
    int number = kNoPass;
    bool reducing = false;   // it ends with a round
    bool overlaps = true;    // that round, with the pass
    std::size_t unsent = 0;  // units with members that no hook has been told to submit in this round
  };
  /// How the ranks tell each other the kinds of gradients in a round.
  struct Kinds {
    std::vector<int> asked = {};                 // parameters
    bool heard = false;                          // the question has ended
    std::vector<std::vector<int>> learned = {};  // what to submit since kinds are known
    std::vector<int> passing = {};               // whose kinds are known for this round only
  };

  [[nodiscard]] const Parameter& at(int parameter) const {
    return parameters_[static_cast<std::size_t>(parameter)];
  }
  [[nodiscard]] Parameter& at(int parameter) { return parameters_[static_cast<std::size_t>(parameter)]; }
  [[nodiscard]] Unit& unit_of(const Parameter& parameter) {
    return units_[static_cast<std::size_t>(parameter.unit)];
  }
  [[nodiscard]] std::string numbered_as(const std::string& name, unsigned rounds) const;
  [[nodiscard]] static bool is_shared(const Parameter& parameter, bool present, bool unchanged);
  [[nodiscard]] bool completes_unit(Parameter& parameter);
  void clear_ready(Unit& unit);
  void join_unit(int number);

  std::string label_;
  bool sparse_as_dense_;
  std::vector<Parameter> parameters_ = {};
  std::vector<Unit> units_ = {};

  bool accumulating_ = false;
  int passes_per_round_;
  int passes_ = 0;                // since the last round
  Pass pass_ = {};                // the one under way
  unsigned rounds_ = 0;           // since the last step
  bool owed_ = false;             // a pass has only accumulated
  bool open_ = false;             // a round has begun and not ended
  Kinds kinds_ = {};              // of the round
  std::string failed_with_ = {};  // why this rank has no gradients
  bool due_ = false;              // other ranks wait for the round of a failed pass
  std::string spoiled_ = {};      // why the last round has failed on all ranks
};

}  // namespace hora::rounds
