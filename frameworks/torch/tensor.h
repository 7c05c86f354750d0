// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/torch.h>

namespace hora {

/// Lends a tensor: an entry with its dtype, shape and memory, whose completion keeps both tensors alive.
/// `output` may be the tensor itself. Throws Error(invalid_argument) that names it for what Hora cannot take.
Entry lend(const torch::Tensor& tensor, const torch::Tensor& output, Operation operation,
           const std::string& name);

/// Throws as `lend` does, for a tensor of which only the kind matters.
void check_lendable(const torch::Tensor& tensor, const std::string& name);

[[nodiscard]] DType dtype_of(const torch::Tensor& tensor, const std::string& name);
[[nodiscard]] DType wire_of(Compression compression);

/// `name`, or "allreduce.1", "allreduce.2", ... for operations without one: the same on all ranks that issue
/// them in the same order.
[[nodiscard]] std::string name_or_number(Runtime& hora, const char* operation, const std::string& name);

}  // namespace hora
