// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/torch.h>

namespace hora {

[[nodiscard]] bool is_sparse(const torch::Tensor& tensor);

/// The allreduce of a sparse COO tensor: the indices and values of all ranks, one after the other, are the
/// sparse form of the sum.
TensorHandle sparse_allreduce_async(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options);

}  // namespace hora
