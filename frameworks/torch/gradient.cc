// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient.h"

#include "frameworks/torch/autograd_node.h"

#include <torch/csrc/autograd/functions/utils.h>

#include <algorithm>

namespace hora {
namespace {

using torch::autograd::variable_list;

class GradientNode final : public torch::autograd::Node {
 public:
  explicit GradientNode(Gradient gradient) : gradient_(std::move(gradient)) {}

  [[nodiscard]] std::string name() const override { return "HoraBackward"; }

 private:
  variable_list apply(variable_list&& gradients) override {
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) gradients[i] = input_metadata(i).zeros_like();
    }
    return gradient_(gradients);
  }

  Gradient gradient_;
};

}  // namespace

bool is_tracked(torch::TensorList inputs) {
  return torch::GradMode::is_enabled() &&
         std::any_of(inputs.begin(), inputs.end(),
                     [](const torch::Tensor& input) { return input.defined() && input.requires_grad(); });
}

std::vector<torch::Tensor> with_gradient(torch::TensorList inputs, std::vector<torch::Tensor> outputs,
                                         Gradient gradient) {
  const NodePointer node = hold(std::make_unique<GradientNode>(std::move(gradient)));
  for (const auto& input : inputs) {
    node->add_next_edge(input.defined() ? torch::autograd::impl::gradient_edge(input)
                                        : torch::autograd::Edge());
  }
  for (auto& output : outputs) torch::autograd::set_history(output, node);
  return outputs;
}

torch::Tensor with_gradient(const torch::Tensor& input, const torch::Tensor& output, Gradient gradient) {
  return with_gradient(torch::TensorList(input), std::vector<torch::Tensor>{output}, std::move(gradient))
      .front();
}

std::vector<std::size_t> differentiable(torch::TensorList tensors) {
  std::vector<std::size_t> indices;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].is_floating_point() || tensors[i].is_complex()) indices.push_back(i);
  }
  return indices;
}

std::vector<torch::Tensor> select(torch::TensorList tensors, const std::vector<std::size_t>& indices) {
  std::vector<torch::Tensor> selected;
  for (const auto i : indices) selected.push_back(tensors[i]);
  return selected;
}

std::string gradient_name(const std::string& name) { return name.empty() ? name : name + ".gradient"; }

OperationOptions for_gradient(const OperationOptions& options) {
  return {gradient_name(options.name), options.process_set};
}

ReduceOptions for_gradient(const ReduceOptions& options) {
  ReduceOptions changed = options;
  changed.name = gradient_name(options.name);
  return changed;
}

}  // namespace hora
