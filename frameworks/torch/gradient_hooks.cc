// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_hooks.h"

#include "frameworks/torch/text.h"

#include <hora/status.h>

#include <torch/csrc/autograd/function_hook.h>

namespace hora {
namespace {

using torch::autograd::variable_list;

/// Runs when backward() is about to add to a gradient.
class BeforeGradient final : public torch::autograd::FunctionPreHook {
 public:
  BeforeGradient(Alive alive, std::function<void()> action)
      : alive_(std::move(alive)), action_(std::move(action)) {}
  variable_list operator()(const variable_list& gradients) override {
    if (alive()) action_();
    return gradients;
  }
  [[nodiscard]] bool alive() const { return *alive_; }

 private:
  Alive alive_;
  std::function<void()> action_;
};

/// Runs when backward() has added to it.
class AfterGradient final : public torch::autograd::FunctionPostHook {
 public:
  AfterGradient(Alive alive, std::function<void()> action)
      : alive_(std::move(alive)), action_(std::move(action)) {}
  variable_list operator()(const variable_list& outputs, const variable_list& /*inputs*/) override {
    if (*alive_) action_();
    return outputs;
  }

 private:
  Alive alive_;
  std::function<void()> action_;
};

}  // namespace

void install_hooks(torch::autograd::Node& accumulate, const Alive& alive, std::function<void()> before,
                   std::function<void()> after) {
  accumulate.add_pre_hook(std::make_unique<BeforeGradient>(alive, std::move(before)));
  accumulate.add_post_hook(std::make_unique<AfterGradient>(alive, std::move(after)));
}

void refuse_if_taken(const torch::autograd::Node& accumulate, const std::string& name) {
  for (const auto& hook : accumulate.pre_hooks()) {
    const auto* other = dynamic_cast<const BeforeGradient*>(hook.get());
    if (other == nullptr || !other->alive()) continue;
    throw Error(Code::invalid_argument,
                text_of("'{}' is in another DistributedOptimizer; end that one first", name));
  }
}

}  // namespace hora
