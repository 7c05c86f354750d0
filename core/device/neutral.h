// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <cstddef>

namespace hora {

/// Fills `count` elements with the value that changes nothing when it is reduced with another one. It is 0
/// for sum, average and adasum, 1 for product, the largest and the smallest value (infinite for floats) for
/// min and max.
void fill_neutral(void* to, DType dtype, ReduceOp op, std::size_t count);

}  // namespace hora
