// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/autograd_node.h"

#include <hora/torch.h>

#include <map>
#include <set>

namespace hora {

/// A parameter of a DistributedOptimizer.
struct Parameter {
  std::string name;  // the same on all ranks; says so if its elements do not lie in the usual order
  torch::Tensor tensor;
  torch::Tensor place;     // where what is to be reduced lies: see `give_places`
  NodePointer accumulate;  // adds to the gradient; alive, so that its hooks are
};

/// The parameters of an optimizer that get gradients.
class Parameters {
 public:
  /// Throws Error(invalid_argument) if a tensor has two names.
  explicit Parameters(const NamedTensors& names);

  /// Throws Error(invalid_argument) if one that gets a gradient has no name.
  void check_named(torch::optim::Optimizer& optimizer) const;

  /// Those that were not returned before, also because they were added or unfrozen since; on all ranks alike.
  /// Throws Error(invalid_argument) for one that has no name, cannot be sent, or is in another
  /// DistributedOptimizer; then none is taken. They have no places yet.
  std::vector<Parameter> adopt(torch::optim::Optimizer& optimizer);

 private:
  [[nodiscard]] std::string name_of(const torch::Tensor& tensor, std::size_t group, std::size_t index) const;

  std::map<const void*, std::string> names_;  // by tensor
  std::set<const void*> known_;
};

}  // namespace hora
