// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/parameters.h"

#include <optional>
#include <utility>
#include <vector>

namespace hora {

/// One parameter, and the tensors of its gradient.
struct GradientSlot : Parameter {
  GradientSlot(Parameter parameter, int parameter_number)
      : Parameter(std::move(parameter)), number(parameter_number) {}

  int number;                          // of the parameter in the ReducerState
  std::optional<Handle> pending = {};  // the reduction under way
  torch::Tensor base = {};             // what was reduced before and is to be added to
  std::int64_t version = 0;            // of the gradient, when the last step ended
  std::vector<Handle> looked_at = {};  // what has made the gradient, and tells whether it is finite
  bool unseen = false;                 // more has been done to it after that

  [[nodiscard]] bool has_gradient() const { return tensor.grad().defined(); }
  [[nodiscard]] bool is_on_host() const;
  /// Whether the gradient lies where it is reduced.
  [[nodiscard]] bool in_place() const;
  /// Whether nobody has written to a reduced gradient since the last step.
  [[nodiscard]] bool is_unchanged() const { return in_place() && tensor.grad()._version() == version; }

  /// Throws Error(invalid_argument) if the gradient is one of a graph of its own.
  void refuse_graph() const;
  /// Keeps the gradient as the base, where a reduction does not overwrite it.
  void set_aside() { base = in_place() ? tensor.grad().clone() : tensor.grad(); }
  /// Brings the gradient to where it is reduced. `for_later`: other gradients come before that. Throws
  /// Error(invalid_argument) if the gradient cannot lie there.
  void put_in_place(Runtime& hora, bool sparse_as_dense, bool for_later);
  /// Notes the reduction under way, which will know whether the gradient is finite.
  void look_at();
  /// Waits for the reduction under way: on the host, or on the current stream of the gradient's GPU. Returns
  /// whether a rank had a gradient. Throws the error of the reduction.
  [[nodiscard]] bool wait();
  /// Gradients that come now belong to the next step.
  void end_step();
};

}  // namespace hora
