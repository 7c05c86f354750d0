// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace hora::rounds {

/// The *kind* of a gradient, the same on all ranks: kUnknown, kDense, or the number of its sparse dimensions.
inline constexpr int kUnknown = 0;
inline constexpr int kDense = 255;

/// The parameters of an optimizer in units, the kinds of their gradients, and the units that a round has
/// submitted. A unit is a list of parameters that are reduced together, or not at all. The ReducerState has
/// it.
///
/// The ranks exchange the kind of a gradient at the end of the first round in which any of them has one.
/// Until then the parameter is no member of its unit, and the unit does not wait for it.
class Units {
 public:
  /// `sparse_as_dense`: sparse gradients are reduced as dense ones.
  explicit Units(bool sparse_as_dense) : sparse_as_dense_(sparse_as_dense) {}

  /// Adds a unit without parameters. Returns its number.
  int add_unit();
  /// Adds a parameter to a unit. If its kind is unknown, the parameter becomes a member when all ranks have
  /// learned the kind. A sparse parameter then gets a unit of its own.
  void add_parameter(int unit, int kind);

  [[nodiscard]] int kind(int parameter) const { return at(parameter).kind; }
  /// Whether gradients of this kind are reduced as dense ones.
  [[nodiscard]] bool travels_dense(int kind) const {
    return kind == kDense || (kind != kUnknown && sparse_as_dense_);
  }
  [[nodiscard]] bool is_member(int parameter) const { return at(parameter).member; }
  /// The members of the unit of this parameter. While backward() runs, they are submitted together.
  [[nodiscard]] const std::vector<int>& members_with(int parameter) const {
    return units_[static_cast<std::size_t>(at(parameter).unit)].members;
  }

  // --- passes of backward() ---

  /// Notes that a pass begins. No gradient has come in it.
  void begin_pass();
  /// Notes that backward() adds to a gradient that was submitted in this round. The addition is reduced
  /// alone.
  void submit_again(int parameter);
  /// Notes that backward() has added to a gradient. Returns whether its unit is complete, and so must be
  /// submitted. The last unit of a round is never complete: it waits for the end of the pass.
  [[nodiscard]] bool completes(int parameter);

  // --- rounds ---

  /// The parameters that the round has not submitted yet, in lists. Each list is submitted together.
  [[nodiscard]] std::vector<std::vector<int>> unsubmitted() const;
  /// Notes that these parameters were submitted together.
  void submitted(const std::vector<int>& parameters);
  /// Notes that the round has ended.
  void end_round();

  /// The parameters of unknown kind for which an exchange must begin in this round; empty if it has begun or
  /// ended.
  [[nodiscard]] std::vector<int> unasked() const;
  /// Notes that the exchange of the kinds of these parameters has begun.
  void asked(std::vector<int> parameters) { question_.asked = std::move(parameters); }
  /// Whether an exchange has begun and not ended.
  [[nodiscard]] bool awaits_kinds() const { return !question_.asked.empty(); }
  /// Ends the exchange with the kinds of the parameters that were given to `asked`. `lasting`: all ranks know
  /// these kinds. The parameters then become members of their units. Otherwise the kinds count for this round
  /// only.
  void learn(const std::vector<int>& kinds, bool lasting);
  /// Ends the exchange, which has failed.
  void learn_nothing();
  /// Forgets the kinds that the ranks have exchanged, and what the round has submitted.
  void forget_kinds();
  /// The kind of each parameter, as all ranks know it. kUnknown: not all do.
  [[nodiscard]] std::vector<int> lasting_kinds() const;
  /// After `forget_kinds`: takes the `lasting_kinds` that all ranks have. There are as many as parameters.
  void recall(const std::vector<int>& kinds);

 private:
  static constexpr int kNone = -1;

  struct Parameter {
    int given_unit;  // the unit and kind that it was added with
    int given_kind;
    int unit = given_unit;
    int kind = given_kind;
    int own_unit = kNone;  // the unit that it got because it was sparse
    bool member = false;   // whether it is a member of its unit
    bool ready = false;    // whether its gradient has come in this pass
  };
  struct Unit {
    std::vector<int> members = {};
    std::size_t ready = 0;  // how many members are ready
    bool sent = false;      // whether it was submitted in this round
  };
  /// The exchange of the kinds of gradients in a round.
  struct Question {
    std::vector<int> asked = {};                 // the parameters of the exchange
    bool ended = false;                          // with success or not
    std::vector<std::vector<int>> learned = {};  // lists to be submitted, whose kinds became known
    std::vector<int> passing = {};               // parameters whose kinds are known for this round only
  };

  [[nodiscard]] const Parameter& at(int parameter) const {
    return parameters_[static_cast<std::size_t>(parameter)];
  }
  [[nodiscard]] Parameter& at(int parameter) { return parameters_[static_cast<std::size_t>(parameter)]; }
  [[nodiscard]] Unit& unit_of(const Parameter& parameter) {
    return units_[static_cast<std::size_t>(parameter.unit)];
  }
  void join(int parameter);
  void become_member(int parameter, int kind);
  void clear_ready(Unit& unit);

  bool sparse_as_dense_;
  std::vector<Parameter> parameters_ = {};
  std::vector<Unit> units_ = {};
  std::size_t unsent_ = 0;  // units with members that no hook has been told to submit in this round
  Question question_ = {};  // of this round
};

}  // namespace hora::rounds
