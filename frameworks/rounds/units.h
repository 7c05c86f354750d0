// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace hora::rounds {

/// The form of a gradient, the same on all ranks: not known yet, dense, or else the number of its sparse
/// dimensions.
inline constexpr int kUnknown = 0;
inline constexpr int kDense = 255;

/// The parameters of an optimizer in units, the form of their gradients, and the units that a round has
/// submitted. A unit is a list of parameters that are reduced together, or not at all.
///
/// The ranks tell each other the kind of a gradient at the end of the first round in which any of them has
/// one. Until then the parameter is no member of its unit, and the unit does not wait for it.
class Units {
 public:
  /// `sparse_as_dense`: sparse gradients are reduced as dense ones.
  explicit Units(bool sparse_as_dense) : sparse_as_dense_(sparse_as_dense) {}

  /// Adds a unit without parameters. Returns its number.
  int add_unit();
  /// Adds a parameter to a unit. If the kind is unknown, the parameter becomes a member when all ranks have
  /// learned it; a sparse one then gets a unit of its own.
  void add_parameter(int unit, int kind);

  [[nodiscard]] int kind(int parameter) const { return at(parameter).kind; }
  /// Whether gradients of a kind are reduced as dense ones.
  [[nodiscard]] bool travels_dense(int kind) const {
    return kind == kDense || (kind != kUnknown && sparse_as_dense_);
  }
  [[nodiscard]] bool is_member(int parameter) const { return at(parameter).member; }
  /// The parameters that are submitted with this one while backward() runs.
  [[nodiscard]] const std::vector<int>& members_with(int parameter) const {
    return units_[static_cast<std::size_t>(at(parameter).unit)].members;
  }

  // --- passes of backward() ---

  void begin_pass();
  /// backward() adds to a gradient that was submitted in this round. The addition is reduced by itself.
  void submit_again(int parameter);
  /// backward() has added to a gradient. Returns whether its unit is complete. The last unit of a round never
  /// is: it waits for the end of the pass.
  [[nodiscard]] bool completes(int parameter);

  // --- rounds ---

  /// The parameters that the round still has to submit: each list together.
  [[nodiscard]] std::vector<std::vector<int>> unsubmitted() const;
  /// These were submitted together.
  void submitted(const std::vector<int>& parameters);
  void end_round();

  /// The parameters of whose kind the ranks are to tell each other; empty if they have.
  [[nodiscard]] std::vector<int> unasked() const;
  /// The ranks were asked for the kinds of these parameters.
  void asked(std::vector<int> parameters) { question_.asked = std::move(parameters); }
  [[nodiscard]] bool awaits_kinds() const { return !question_.asked.empty(); }
  /// The kinds of the parameters that were asked for. `lasting`: all ranks know them, so these parameters are
  /// submitted as they come from the next round on.
  void learn(const std::vector<int>& kinds, bool lasting);
  /// The question has failed.
  void learn_nothing();

 private:
  struct Parameter {
    int unit;
    int kind;
    bool member = false;  // of its unit
    bool ready = false;   // its gradient has come in this pass
  };
  struct Unit {
    std::vector<int> members = {};
    std::size_t ready = 0;  // of the members
    bool sent = false;      // in this round
  };
  /// How the ranks tell each other the kinds of gradients in a round.
  struct Question {
    std::vector<int> asked = {};                 // parameters
    bool ended = false;                          // well or not
    std::vector<std::vector<int>> learned = {};  // to be submitted, as their kinds are known
    std::vector<int> passing = {};               // their kinds are known for this round only
  };

  [[nodiscard]] const Parameter& at(int parameter) const {
    return parameters_[static_cast<std::size_t>(parameter)];
  }
  [[nodiscard]] Parameter& at(int parameter) { return parameters_[static_cast<std::size_t>(parameter)]; }
  [[nodiscard]] Unit& unit_of(const Parameter& parameter) {
    return units_[static_cast<std::size_t>(parameter.unit)];
  }
  void join(int parameter);
  void learn_one(int parameter, int kind, bool lasting);
  void clear_ready(Unit& unit);

  bool sparse_as_dense_;
  std::vector<Parameter> parameters_ = {};
  std::vector<Unit> units_ = {};
  std::size_t unsent_ = 0;  // units with members that no hook has been told to submit in this round
  Question question_ = {};  // of the round
};

}  // namespace hora::rounds
