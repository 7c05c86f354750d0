// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/state/state_transfer.h"

#include <hora/torch.h>

#include <string>
#include <vector>

namespace hora::elastic {

/// A parameter and what the optimizer keeps of it, or some of these tensors.
using Unit = std::vector<torch::Tensor>;

/// For StateTransfer.
[[nodiscard]] std::vector<state::StateTransfer::Unit> memory_of(const std::vector<Unit>& units);

/// Whether the tensors of these units have the same sizes. Those of the same training differ if it has made
/// more of them meanwhile.
[[nodiscard]] bool are_alike(const std::vector<Unit>& units, const std::vector<Unit>& others);

/// Where a large tensor is that is never given apart, as it follows its description; empty for others.
[[nodiscard]] std::string place_of(const torch::Tensor& tensor);

/// Gives the state of a model and its optimizer to ranks that need it. With `apart`, large tensors keep their
/// values: parameters on the host that share no memory, and states of the optimizer. They are to be given
/// otherwise, while the ranks compute. Refers to Runtime and optimizer.
///
/// All ranks make one, and call its functions alike, with the rank that gives.
class Handover {
 public:
  /// `parameters`: each once. `buffers`: of the same model.
  Handover(Runtime& hora, NamedTensors parameters, NamedTensors buffers, torch::optim::Optimizer& optimizer,
           int root);

  void give_model(bool apart);
  /// After the model. `needs`: whether this rank gets the state. Returns what was to be kept apart, alike on
  /// all ranks.
  std::vector<Unit> give_optimizer(bool needs, bool apart);

 private:
  /// The tensors that the optimizer keeps of each parameter.
  [[nodiscard]] std::vector<Unit> states();
  /// Whether the root finds this true, for each of so many things.
  [[nodiscard]] std::vector<bool> found_by_root(const std::vector<bool>& own, const char* name);

  Runtime& hora_;
  const NamedTensors parameters_;
  const NamedTensors buffers_;
  torch::optim::Optimizer& optimizer_;
  const int root_;
  std::vector<bool> apart_;  // for each parameter: whether it is kept apart
};

}  // namespace hora::elastic
