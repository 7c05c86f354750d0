// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>

namespace hora {

/// Whether the DistributedOptimizer of a hook still is. Autograd's nodes own their hooks, and may live
/// longer.
using Alive = std::shared_ptr<bool>;

/// Has `before` run when backward() is about to add to a parameter's gradient, and `after` when it has, for
/// as long as `*alive`. `accumulate` is the parameter's node that adds to the gradient.
void install_hooks(torch::autograd::Node& accumulate, const Alive& alive, std::function<void()> before,
                   std::function<void()> after);

/// Throws Error(invalid_argument) if the parameter is in a DistributedOptimizer that is alive.
void refuse_if_taken(const torch::autograd::Node& accumulate, const std::string& name);

}  // namespace hora
