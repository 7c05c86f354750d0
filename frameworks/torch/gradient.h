// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/torch.h>

namespace hora {

/// From the gradients of an operation's outputs (zeros where the loss does not use one) to those of its
/// inputs. Runs in backward().
using Gradient = std::function<std::vector<torch::Tensor>(const std::vector<torch::Tensor>& gradients)>;

/// Whether autograd wants to know what is done with any of them.
[[nodiscard]] bool is_tracked(torch::TensorList inputs);

/// Tells autograd how the outputs came from the inputs; returns the outputs.
std::vector<torch::Tensor> with_gradient(torch::TensorList inputs, std::vector<torch::Tensor> outputs,
                                         Gradient gradient);
torch::Tensor with_gradient(const torch::Tensor& input, const torch::Tensor& output, Gradient gradient);

/// The indices of the tensors that have gradients: those of floating-point elements.
[[nodiscard]] std::vector<std::size_t> differentiable(torch::TensorList tensors);
[[nodiscard]] std::vector<torch::Tensor> select(torch::TensorList tensors,
                                                const std::vector<std::size_t>& indices);

/// The name of the operation that backward() makes for one of this name.
[[nodiscard]] std::string gradient_name(const std::string& name);
[[nodiscard]] OperationOptions for_gradient(const OperationOptions& options);
[[nodiscard]] ReduceOptions for_gradient(const ReduceOptions& options);

}  // namespace hora
