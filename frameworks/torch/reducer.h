// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/parameters.h"

namespace hora {

/// The work of a DistributedOptimizer, in one of two ways to bring the ranks together. Refers to the
/// optimizer.
class Reducer {
 public:
  using Closure = std::function<torch::Tensor()>;

  Reducer() = default;
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;
  virtual ~Reducer() = default;

  virtual void synchronize() = 0;
  virtual torch::Tensor step(const Closure& closure) = 0;
  virtual void zero_grad(bool set_to_none) = 0;
  /// Whether all reduced gradients are finite; all ranks call it, and get the same answer.
  virtual bool gradients_finite() = 0;
  /// From now on, whether backward() only adds up gradients on this rank.
  virtual void set_accumulating(bool accumulating) = 0;
};

/// Whether no element of these is infinite or not a number.
[[nodiscard]] bool all_finite(torch::TensorList gradients);
/// Whether this rank's gradients are so.
[[nodiscard]] bool all_finite(torch::optim::Optimizer& optimizer);

/// Gradients are reduced while backward() makes them. `options` have a name.
std::unique_ptr<Reducer> make_gradient_reducer(Runtime& hora, torch::optim::Optimizer& optimizer,
                                               Parameters parameters, const DistributedOptions& options);

/// Combines the changes that the optimizer's step makes, by `options.op`. `options` have a name.
std::unique_ptr<Reducer> make_delta_reducer(Runtime& hora, torch::optim::Optimizer& optimizer,
                                            Parameters parameters, const DistributedOptions& options);

}  // namespace hora
