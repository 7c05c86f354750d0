// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/device.h>

#include <torch/torch.h>

#include <functional>

// The adapter's knowledge of GPUs. It links nothing of CUDA's: streams come from LibTorch's registry of
// devices, which has CUDA's once a program has a CUDA tensor.
//
// Orders: an operation begins when the stream that is current at its submission has come so far, and waiting
// for it makes the stream that is current then wait, not the host. Hooks of gradients, and what backward()
// ends with, run with the streams current that the gradients were made on, and that backward() was called on.
//
// Lifetimes: LibTorch gives memory that is freed to whoever wants some next on the stream that it was
// allocated on, without waiting for the GPU. So an Entry's `done`, which runs when the GPU, too, has ended,
// holds its tensors. Outputs, and copies that take their place, belong to the stream of the submission, as
// those of any operation on it; if it is another one that waits, the allocator is told so (`used_here`).

namespace hora {

/// The device that it is on.
[[nodiscard]] Device lies_on(const torch::Tensor& tensor);
/// The GPU that one of these is on; the host, if none is. (A rank has one GPU.)
[[nodiscard]] Device device_among(torch::TensorList tensors);

/// The cudaStream_t to which LibTorch gives what this thread does on a GPU; null for the host.
[[nodiscard]] void* current_stream(Device device);

/// Tells LibTorch's allocator that the stream which is current, too, uses the tensor: its memory is used
/// again when that has come so far. Returns it.
torch::Tensor used_here(torch::Tensor tensor);

/// Makes an empty tensor of a shape, in any thread: as one that the stream makes which is current on the
/// tensor's device now.
[[nodiscard]] std::function<torch::Tensor(const std::vector<std::int64_t>& shape)> maker_like(
    const torch::Tensor& like);

}  // namespace hora
