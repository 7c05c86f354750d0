// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/parameters.h"

#include <vector>

namespace hora {

/// Gives parameters places for what is reduced, side by side in memory from the Runtime, one block for each
/// dtype and device. Every place has the shape and strides of its parameter, and keeps the block alive.
void give_places(Runtime& hora, const std::vector<Parameter*>& parameters);

}  // namespace hora
