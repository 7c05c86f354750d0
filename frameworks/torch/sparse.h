// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/torch.h>

namespace hora {

/// Whether a tensor has a layout other than strided, so any of the sparse ones. False if it is undefined.
[[nodiscard]] bool is_sparse(const torch::Tensor& tensor);

/// Starts an allreduce (sum or average) of a sparse COO tensor, whose shape must be equal on all ranks. It
/// gathers the indices and the values of all ranks; a coalesced tensor of these is the sum. The result is a
/// new tensor. Throws Error(invalid_argument) for another sparse layout or another reduction. The handle
/// throws Error(mismatch) if shapes differ.
TensorHandle sparse_allreduce_async(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options);

}  // namespace hora
