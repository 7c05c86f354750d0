// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstddef>

namespace hora {

/// As NCCL has them: 16-bit floats are rounded after each operation.
[[nodiscard]] std::size_t fake_size_of(ncclDataType_t type);
/// to[i] = to[i] op from[i]; `op` is one of the first four.
void fake_combine(ncclRedOp_t op, ncclDataType_t type, void* to, const void* from, std::size_t count);
/// to[i] = to[i] * scalar, which is one element.
void fake_multiply(ncclDataType_t type, void* to, const void* scalar, std::size_t count);
/// to[i] = to[i] / ranks
void fake_divide(ncclDataType_t type, void* to, int ranks, std::size_t count);

}  // namespace hora
