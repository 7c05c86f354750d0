// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_buckets.h"
#include "frameworks/torch/tensor.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <mutex>
#include <optional>

namespace hora {
namespace {

/// One parameter, and how far its gradient is.
struct Slot {
  std::string name;
  torch::Tensor parameter;
  torch::Tensor place;            // where its gradient lies while it is reduced
  std::optional<Handle> pending;  // the reduction under way
  bool settled = false;           // the gradient is the reduced one, or nobody has one
  unsigned hook = 0;
};

/// Runs after backward() has added to the parameter's gradient.
class AfterGradient final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit AfterGradient(std::function<void()> action) : action_(std::move(action)) {}
  void operator()(const torch::autograd::Variable& /*parameter*/) override { action_(); }

 private:
  std::function<void()> action_;
};

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

/// The optimizer's parameters that get gradients, with their names.
std::vector<Slot> make_slots(const torch::optim::Optimizer& optimizer, const NamedTensors& parameters) {
  std::map<const void*, std::string> names;
  for (const auto& item : parameters) {
    const auto [place, fresh] = names.emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (!fresh)
      refuse(fmt::format("'{}' and '{}' are one parameter; name it once", place->second, item.key()));
  }
  std::vector<Slot> slots;
  for (std::size_t group = 0; group < optimizer.param_groups().size(); ++group) {
    const auto& params = optimizer.param_groups()[group].params();
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (!params[i].requires_grad()) continue;
      const auto name = names.find(params[i].unsafeGetTensorImpl());
      if (name == names.end()) {
        refuse(fmt::format("parameter {} of group {} has no name; pass all of model->named_parameters()", i,
                           group));
      }
      check_lendable(params[i], name->second);
      slots.push_back({name->second, params[i], {}, {}, false, 0});
    }
  }
  return slots;
}

}  // namespace

/// A round is what lies between two steps. In it every slot is settled once: hooks submit gradients as they
/// come, and `synchronize` submits the rest and waits. A gradient that is settled and then added to again
/// (accumulation without no_sync, or no zero_grad) holds what all ranks share plus what is this rank's own;
/// reducing it again gives the right mean, and the right sum if the shared part is divided by the number of
/// ranks before.
///
/// Locking: autograd's threads call `before` and `after`, the user's thread the rest; `mutex` guards the
/// slots. Waiting for a reduction under it is safe: Hora's thread never takes it.
struct DistributedOptimizer::Parts {
  Parts(Runtime& runtime, std::unique_ptr<torch::optim::Optimizer> wrapped, const NamedTensors& parameters,
        DistributedOptions chosen)
      : hora(runtime),
        optimizer(std::move(wrapped)),
        options(std::move(chosen)),
        slots(make_slots(*optimizer, parameters)) {
    if (options.op != ReduceOp::average && options.op != ReduceOp::sum)
      refuse("gradients are averaged or summed");
    if (options.name.empty()) options.name = fmt::to_string(hora.next_number());
    std::vector<torch::Tensor> tensors;
    for (const auto& slot : slots) tensors.push_back(slot.parameter);
    auto places = make_gradient_places(hora, tensors);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      slots[i].place = std::move(places[i]);
      install_hooks(slots[i]);
    }
  }

  ~Parts() {
    for (auto& slot : slots) {
      torch::autograd::impl::set_post_acc_grad_hooks(slot.parameter, nullptr);
      slot.parameter.remove_hook(slot.hook);
    }
  }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  void install_hooks(Slot& slot) {
    slot.hook =
        slot.parameter.register_hook([this, &slot](const torch::Tensor& /*gradient*/) { before(slot); });
    torch::autograd::impl::set_post_acc_grad_hooks(
        slot.parameter, std::make_unique<AfterGradient>([this, &slot] { after(slot); }));
  }

  /// backward() is about to add to this gradient.
  void before(Slot& slot) {
    const std::lock_guard lock(mutex);
    if (slot.pending) settle(slot);
    if (synchronized) begin_round();
    unsettle(slot);
  }

  void after(Slot& slot) {
    const std::lock_guard lock(mutex);
    if (!accumulating) submit(slot);
  }

  /// What was settled in the last round has to be settled again.
  void begin_round() { synchronized = false; }

  void unsettle(Slot& slot) {
    if (!std::exchange(slot.settled, false)) return;
    const torch::NoGradGuard no_grad;
    torch::Tensor& gradient = slot.parameter.mutable_grad();
    if (options.op == ReduceOp::sum && gradient.defined()) gradient.div_(hora.size());
  }

  void submit(Slot& slot) {
    const torch::NoGradGuard no_grad;
    torch::Tensor& gradient = slot.parameter.mutable_grad();
    const bool absent = !gradient.defined();
    if (!absent) {
      check_lendable(gradient, slot.name);
      if (gradient.data_ptr() != slot.place.data_ptr()) {
        slot.place.copy_(gradient);
        gradient = slot.place;
      }
    }
    Entry entry;
    entry.name = fmt::format("gradient.{}.{}", options.name, slot.name);
    entry.dtype = dtype_of(slot.place, slot.name);
    entry.shape = slot.place.sizes().vec();
    entry.input = entry.output = slot.place.data_ptr();
    entry.op = options.op;
    entry.wire = wire_of(options.compression);
    entry.absent = absent;
    entry.done = [place = slot.place](const Result& /*result*/) {};  // keeps the memory until then
    slot.pending = hora.submit(std::move(entry));
  }

  void settle(Slot& slot) {
    const Handle handle = *std::exchange(slot.pending, std::nullopt);
    const Result& result = handle.wait();
    slot.settled = true;
    torch::Tensor& gradient = slot.parameter.mutable_grad();
    if (result.contributed && !gradient.defined()) gradient = slot.place;
  }

  void synchronize() {
    const std::lock_guard lock(mutex);
    if (synchronized) return;
    for (auto& slot : slots) {
      if (slot.pending) continue;
      unsettle(slot);
      submit(slot);
    }
    std::optional<Error> first;
    for (auto& slot : slots) {
      try {
        if (slot.pending) settle(slot);
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
    if (first) throw Error(*first);
    synchronized = true;
  }

  Runtime& hora;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  DistributedOptions options;
  std::mutex mutex;
  std::vector<Slot> slots;
  bool synchronized = false;
  bool accumulating = false;
};

DistributedOptimizer::DistributedOptimizer(Runtime& hora, std::unique_ptr<torch::optim::Optimizer> optimizer,
                                           const NamedTensors& parameters, DistributedOptions options)
    : parts_(std::make_unique<Parts>(hora, std::move(optimizer), parameters, std::move(options))) {}
DistributedOptimizer::~DistributedOptimizer() = default;
DistributedOptimizer::DistributedOptimizer(DistributedOptimizer&&) noexcept = default;
DistributedOptimizer& DistributedOptimizer::operator=(DistributedOptimizer&&) noexcept = default;

void DistributedOptimizer::synchronize() { parts_->synchronize(); }

torch::Tensor DistributedOptimizer::step(const std::function<torch::Tensor()>& closure) {
  torch::Tensor loss;
  if (closure) {
    loss = parts_->optimizer->step([&] {
      const torch::Tensor value = closure();
      parts_->synchronize();
      return value;
    });
  } else {
    parts_->synchronize();
    loss = parts_->optimizer->step();
  }
  const std::lock_guard lock(parts_->mutex);
  parts_->begin_round();
  return loss;
}

void DistributedOptimizer::zero_grad(bool set_to_none) {
  const std::lock_guard lock(parts_->mutex);
  for (auto& slot : parts_->slots) {
    if (slot.pending) parts_->settle(slot);
    slot.settled = false;
  }
  parts_->optimizer->zero_grad(set_to_none);
}

DistributedOptimizer::NoSync::NoSync(DistributedOptimizer& optimizer) : optimizer_(optimizer) {
  const std::lock_guard lock(optimizer_.parts_->mutex);
  optimizer_.parts_->accumulating = true;
}

DistributedOptimizer::NoSync::~NoSync() {
  const std::lock_guard lock(optimizer_.parts_->mutex);
  optimizer_.parts_->accumulating = false;
}

torch::optim::Optimizer& DistributedOptimizer::optimizer() { return *parts_->optimizer; }

}  // namespace hora
