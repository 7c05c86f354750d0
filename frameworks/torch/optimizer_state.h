// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/torch.h>

#include <string>

namespace hora {

/// The state and the options of an optimizer. The state of each kind has its own type; LibTorch's archives
/// know them all.
[[nodiscard]] std::string bytes_of(torch::optim::Optimizer& optimizer);

/// Makes the optimizer what `bytes_of` has written, on the device of its first parameter.
void load_bytes(torch::optim::Optimizer& optimizer, const std::string& bytes);

}  // namespace hora
