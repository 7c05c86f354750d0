// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/reducer.h"
#include "frameworks/torch/text.h"

#include <algorithm>
#include <cmath>

namespace hora {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

/// On a rank that has nobody to reduce with: it is alone in the job or the process set, or not in that.
class Alone final : public Reducer {
 public:
  explicit Alone(torch::optim::Optimizer& optimizer) : optimizer_(optimizer) {}

  void synchronize() override {}
  torch::Tensor step(const Closure& closure) override { return optimizer_.step(closure); }
  void zero_grad(bool set_to_none) override { optimizer_.zero_grad(set_to_none); }
  void set_accumulating(bool /*accumulating*/) override {}
  bool gradients_finite() override { return all_finite(optimizer_); }

 private:
  torch::optim::Optimizer& optimizer_;
};

void check(const DistributedOptions& options) {
  if (options.op != ReduceOp::average && options.op != ReduceOp::sum && options.op != ReduceOp::adasum)
    refuse(text_of("gradients are reduced by average, sum or adasum, not by {}", name(options.op)));
  if (options.backward_passes_per_step < 1) {
    refuse(text_of("backward_passes_per_step must be 1 or more, not {}", options.backward_passes_per_step));
  }
  const double factor = options.gradient_predivide_factor;
  if (!(factor > 0) || !std::isfinite(factor))
    refuse(text_of("gradient_predivide_factor must be positive, not {}", factor));
  if (factor != 1.0 && options.op != ReduceOp::average)
    refuse("gradient_predivide_factor needs op = average");
  if (options.groups < 0) refuse(text_of("groups must be 0 or more, not {}", options.groups));
}

/// Whether there is nobody to reduce with, now and later.
bool is_alone(const Runtime& hora, int process_set) {
  if (hora.is_elastic() && process_set == 0) return false;
  const auto sets = hora.process_sets();
  const auto set = sets.find(process_set);
  if (set == sets.end())
    refuse(text_of("process set {} does not exist, or has not been registered", process_set));
  const std::vector<int>& ranks = set->second.ranks;
  return ranks.size() == 1 || !std::binary_search(ranks.begin(), ranks.end(), hora.rank());
}

std::unique_ptr<Reducer> make_reducer(Runtime& hora, torch::optim::Optimizer& optimizer,
                                      const NamedTensors& names, DistributedOptions options) {
  check(options);
  Parameters parameters(names);
  if (is_alone(hora, options.process_set)) {
    parameters.check_named(optimizer);  // so that what cannot run on several ranks does not run on one
    return std::make_unique<Alone>(optimizer);
  }
  if (options.name.empty()) options.name = std::to_string(hora.next_number(options.process_set));
  const auto make = options.op == ReduceOp::adasum ? make_delta_reducer : make_gradient_reducer;
  return make(hora, optimizer, std::move(parameters), options);
}

}  // namespace

bool all_finite(torch::TensorList gradients) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> answers;
  for (const auto& gradient : gradients) {
    const auto values = gradient.layout() == torch::kStrided ? gradient : gradient._values();
    answers.push_back(torch::isfinite(values).all());
  }
  return std::all_of(answers.begin(), answers.end(),
                     [](const auto& answer) { return answer.template item<bool>(); });
}

bool all_finite(torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> gradients;
  for (const auto& group : optimizer.param_groups()) {
    for (const auto& parameter : group.params()) {
      if (parameter.grad().defined()) gradients.push_back(parameter.grad());
    }
  }
  return all_finite(gradients);
}

/// In the order in which each needs those above it.
struct DistributedOptimizer::Parts {
  bool check_finite;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  std::unique_ptr<Reducer> reducer;
};

DistributedOptimizer::DistributedOptimizer(Runtime& hora, std::unique_ptr<torch::optim::Optimizer> optimizer,
                                           const NamedTensors& parameters, DistributedOptions options)
    : parts_(std::make_unique<Parts>()) {
  if (!optimizer) refuse("there is no optimizer: the pointer is null");
  parts_->check_finite = options.check_finite;
  parts_->optimizer = std::move(optimizer);
  parts_->reducer = make_reducer(hora, *parts_->optimizer, parameters, std::move(options));
}
DistributedOptimizer::~DistributedOptimizer() = default;
DistributedOptimizer::DistributedOptimizer(DistributedOptimizer&&) noexcept = default;
DistributedOptimizer& DistributedOptimizer::operator=(DistributedOptimizer&&) noexcept = default;

void DistributedOptimizer::synchronize() { parts_->reducer->synchronize(); }

torch::Tensor DistributedOptimizer::step(const std::function<torch::Tensor()>& closure) {
  return parts_->reducer->step(closure);
}

void DistributedOptimizer::zero_grad(bool set_to_none) { parts_->reducer->zero_grad(set_to_none); }

bool DistributedOptimizer::gradients_finite() {
  if (!parts_->check_finite) refuse("gradients_finite() needs check_finite in the DistributedOptions");
  synchronize();
  return parts_->reducer->gradients_finite();
}

DistributedOptimizer::NoSync::NoSync(DistributedOptimizer& optimizer) : optimizer_(optimizer) {
  optimizer_.parts_->reducer->set_accumulating(true);
}

DistributedOptimizer::NoSync::~NoSync() { optimizer_.parts_->reducer->set_accumulating(false); }

torch::optim::Optimizer& DistributedOptimizer::optimizer() { return *parts_->optimizer; }

}  // namespace hora
