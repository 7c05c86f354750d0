// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

namespace hora {

/// The state and the options of an optimizer. The state of each kind has its own type; LibTorch's archives
/// know them all.
[[nodiscard]] std::string bytes_of(torch::optim::Optimizer& optimizer);

/// Makes the optimizer what `bytes_of` has written, on the device of its first parameter.
void load_bytes(torch::optim::Optimizer& optimizer, const std::string& bytes);

/// The tensors that one of LibTorch's optimizers keeps of a parameter, such as moments, in an order that
/// depends on its kind alone. None of other optimizers, whose states are not known.
[[nodiscard]] std::vector<torch::Tensor> state_of(torch::optim::Optimizer& optimizer,
                                                  const torch::Tensor& parameter);

/// As `bytes_of`, without the values of some tensors of `state_of`.
[[nodiscard]] std::string bytes_without(torch::optim::Optimizer& optimizer,
                                        const std::vector<torch::Tensor>& without);

}  // namespace hora
