// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_buckets.h"
#include "frameworks/torch/gradient_hooks.h"
#include "frameworks/torch/reducer.h"
#include "frameworks/torch/tensor.h"

namespace hora {
namespace {

/// Each rank steps for itself, with the gradients of its own batch; the changes of each parameter (deltas)
/// are combined, and become the change on every rank. Nothing happens in backward().
class DeltaReducer final : public Reducer {
 public:
  DeltaReducer(Runtime& hora, torch::optim::Optimizer& optimizer, Parameters parameters,
               DistributedOptions options)
      : hora_(hora), optimizer_(optimizer), parameters_(std::move(parameters)), options_(std::move(options)) {
    adopt_new();
  }
  DeltaReducer(const DeltaReducer&) = delete;
  DeltaReducer& operator=(const DeltaReducer&) = delete;
  ~DeltaReducer() override { *alive_ = false; }

  void synchronize() override {}
  void set_accumulating(bool /*accumulating*/) override {}
  void zero_grad(bool set_to_none) override { optimizer_.zero_grad(set_to_none); }

  bool gradients_finite() override {
    // Gradients stay each rank's own here: one rank's infinite ones count for all.
    auto found = torch::tensor(all_finite(optimizer_) ? 1 : 0, torch::kUInt8);
    return allreduce_(
               hora_, found,
               {.name = "finite." + options_.name, .op = ReduceOp::min, .process_set = options_.process_set})
               .item<std::uint8_t>() != 0;
  }

  torch::Tensor step(const Closure& closure) override {
    adopt_new();
    std::vector<torch::Tensor> before;
    for (const auto& parameter : all_) before.push_back(parameter.tensor.detach().clone());
    torch::Tensor loss;
    try {
      loss = optimizer_.step(closure);
    } catch (...) {
      restore(before);
      throw;
    }
    combine(before);
    return loss;
  }

 private:
  void adopt_new() {
    auto fresh = parameters_.adopt(optimizer_);
    std::vector<Parameter*> listed;
    for (auto& parameter : fresh) listed.push_back(&parameter);
    give_places(hora_, listed);
    for (auto& parameter : fresh) {
      install_hooks(*parameter.accumulate, alive_, [] {}, [] {});  // they say whose the parameter is
      all_.push_back(std::move(parameter));
    }
  }

  /// Undoes a step.
  void restore(const std::vector<torch::Tensor>& before) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < before.size(); ++i) all_[i].tensor.copy_(before[i]);
  }

  /// The parameters are what they were before if the ranks disagree.
  void combine(const std::vector<torch::Tensor>& before) {
    const torch::NoGradGuard no_grad;
    for (std::size_t i = 0; i < all_.size(); ++i) all_[i].place.copy_(all_[i].tensor).sub_(before[i]);
    restore(before);
    std::vector<Handle> handles;
    std::vector<torch::Tensor> places;
    for (const auto& parameter : all_) {
      handles.push_back(hora_.submit(entry_of(parameter)));
      places.push_back(parameter.place);
    }
    wait_for_all(handles, device_among(places));
    for (auto& parameter : all_) parameter.tensor.add_(parameter.place);
  }

  [[nodiscard]] Entry entry_of(const Parameter& parameter) const {
    Entry entry = lend(parameter.place, parameter.place, Operation::allreduce,
                       "delta." + options_.name + "." + parameter.name, options_.process_set);
    entry.op = options_.op;
    entry.wire = wire_of(options_.compression);
    return entry;
  }

  Runtime& hora_;
  torch::optim::Optimizer& optimizer_;
  Parameters parameters_;
  DistributedOptions options_;
  Alive alive_ = std::make_shared<bool>(true);
  std::vector<Parameter> all_;
};

}  // namespace

std::unique_ptr<Reducer> make_delta_reducer(Runtime& hora, torch::optim::Optimizer& optimizer,
                                            Parameters parameters, const DistributedOptions& options) {
  return std::make_unique<DeltaReducer>(hora, optimizer, std::move(parameters), options);
}

}  // namespace hora
