// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/parameters.h"

#include "frameworks/torch/gradient_hooks.h"
#include "frameworks/torch/tensor.h"
#include "frameworks/torch/text.h"

#include <torch/csrc/autograd/variable.h>

namespace hora {

Parameters::Parameters(const NamedTensors& names) {
  for (const auto& item : names) {
    const auto [place, fresh] = names_.emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (!fresh)
      throw Error(Code::invalid_argument,
                  text_of("'{}' and '{}' are one parameter; name it once", place->second, item.key()));
  }
}

std::string Parameters::name_of(const torch::Tensor& tensor, std::size_t group, std::size_t index) const {
  const auto name = names_.find(tensor.unsafeGetTensorImpl());
  if (name != names_.end()) return name->second;
  if (known_.empty()) {
    throw Error(
        Code::invalid_argument,
        text_of("parameter {} of group {} has no name; pass all of model->named_parameters()", index, group));
  }
  return text_of("{}.{}", group, index);
}

void Parameters::check_named(torch::optim::Optimizer& optimizer) const {
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const auto& params = optimizer.param_groups()[group].params();
    for (std::size_t i = 0; i < params.size(); ++i)
      if (params[i].requires_grad()) static_cast<void>(name_of(params[i], group, i));
  }
}

std::vector<Parameter> Parameters::adopt(torch::optim::Optimizer& optimizer) {
  std::vector<Parameter> found;
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const auto& params = optimizer.param_groups()[group].params();
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!params[i].requires_grad() || known_.count(params[i].unsafeGetTensorImpl()) > 0) continue;
      const auto name = name_of(params[i], group, i);
      check_lendable(params[i], name);
      auto accumulate = torch::autograd::impl::grad_accumulator(params[i]);
      refuse_if_taken(*accumulate, name);
      found.push_back({name, params[i], {}, std::move(accumulate)});
    }
  }
  for (const auto& parameter : found) known_.insert(parameter.tensor.unsafeGetTensorImpl());
  return found;
}

}  // namespace hora
