// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/torch.h>

#include <memory>
#include <vector>

namespace hora {

/// Places for gradients, side by side in memory from the Runtime, one block for each dtype and device. Every
/// place has the shape and strides of its parameter, and keeps the block alive.
std::vector<torch::Tensor> make_gradient_places(Runtime& hora, const std::vector<torch::Tensor>& parameters);

}  // namespace hora
