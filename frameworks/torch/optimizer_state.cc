// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/optimizer_state.h"

#include <sstream>

namespace hora {
namespace {

torch::Device device_of(torch::optim::Optimizer& optimizer) {
  for (auto& group : optimizer.param_groups()) {
    if (!group.params().empty()) return group.params().front().device();
  }
  return torch::kCPU;
}

std::vector<torch::Tensor> tensors_of(const torch::optim::OptimizerParamState& state) {
  if (const auto* sgd = dynamic_cast<const torch::optim::SGDParamState*>(&state))
    return {sgd->momentum_buffer()};
  if (const auto* adam = dynamic_cast<const torch::optim::AdamParamState*>(&state))
    return {adam->exp_avg(), adam->exp_avg_sq(), adam->max_exp_avg_sq()};
  if (const auto* adam = dynamic_cast<const torch::optim::AdamWParamState*>(&state))
    return {adam->exp_avg(), adam->exp_avg_sq(), adam->max_exp_avg_sq()};
  if (const auto* rms = dynamic_cast<const torch::optim::RMSpropParamState*>(&state))
    return {rms->square_avg(), rms->momentum_buffer(), rms->grad_avg()};
  if (const auto* grad = dynamic_cast<const torch::optim::AdagradParamState*>(&state)) return {grad->sum()};
  return {};
}

/// Gives tensors a value of one element, which takes no memory, and their own again at the end.
class Emptied {
 public:
  explicit Emptied(const std::vector<torch::Tensor>& tensors) : tensors_(tensors) {
    for (torch::Tensor& tensor : tensors_) {
      values_.push_back(tensor.detach());
      tensor.set_data(torch::zeros({}, tensor.options()).expand(tensor.sizes()));
    }
  }
  ~Emptied() {
    for (std::size_t i = 0; i < tensors_.size(); ++i) tensors_[i].set_data(values_[i]);
  }
  Emptied(const Emptied&) = delete;
  Emptied& operator=(const Emptied&) = delete;

 private:
  std::vector<torch::Tensor> tensors_;
  std::vector<torch::Tensor> values_;
};

}  // namespace

std::string bytes_of(torch::optim::Optimizer& optimizer) {
  std::ostringstream stream;
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  archive.save_to(stream);
  return stream.str();
}

void load_bytes(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream, device_of(optimizer));
  optimizer.load(archive);
}

std::vector<torch::Tensor> state_of(torch::optim::Optimizer& optimizer, const torch::Tensor& parameter) {
  const auto found = optimizer.state().find(parameter.unsafeGetTensorImpl());
  if (found == optimizer.state().end()) return {};
  auto tensors = tensors_of(*found->second);
  std::erase_if(tensors, [](const torch::Tensor& tensor) { return !tensor.defined(); });
  return tensors;
}

std::string bytes_without(torch::optim::Optimizer& optimizer, const std::vector<torch::Tensor>& without) {
  const Emptied emptied(without);
  return bytes_of(optimizer);
}

}  // namespace hora
