// SPDX-License-Identifier: Apache-2.0
#include "frameworks/torch/gradient_buckets.h"
#include "frameworks/torch/tensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>

namespace hora {
namespace {

constexpr unsigned kMostNumbers = 8;  // names of a gradient's rounds, which then repeat

/// One parameter, and how far its gradient is.
struct Slot {
  std::string name;
  torch::Tensor parameter;
  torch::Tensor place = {};            // where its gradient lies while it is reduced
  std::optional<Handle> pending = {};  // the reduction under way
  bool absent = false;                 // what is pending has nothing from this rank
  torch::Tensor base = {};             // what was reduced before and is to be added to
  bool settled = false;                // the gradient, if there is one, is the same on all ranks
  std::int64_t version = 0;            // of a settled gradient, when the last step ended
  unsigned rounds = 0;                 // since the last step or zero_grad
  std::shared_ptr<torch::autograd::Node> accumulate =
      {};  // what adds to the gradient; alive, so its hooks are

  [[nodiscard]] bool in_place() const {
    const torch::Tensor& gradient = parameter.grad();
    return gradient.defined() && gradient.layout() == torch::kStrided &&
           gradient.data_ptr() == place.data_ptr();
  }
};

using torch::autograd::variable_list;

/// Whether the DistributedOptimizer of a hook still is.
using Alive = std::shared_ptr<bool>;

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

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

/// Their names, by tensor.
std::map<const void*, std::string> names_of(const NamedTensors& parameters) {
  std::map<const void*, std::string> names;
  for (const auto& item : parameters) {
    const auto [place, fresh] = names.emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (!fresh)
      refuse(fmt::format("'{}' and '{}' are one parameter; name it once", place->second, item.key()));
  }
  return names;
}

}  // namespace

/// A round reduces what every rank has gathered in its gradients since the round before, each gradient once.
/// A pass of backward() that is to reduce is one round: hooks submit gradients as they come; when the pass
/// ends, before backward() returns, the rest is submitted, too, and all is waited for. So gradients are the
/// reduced ones whenever the user can see them, and all ranks make the same rounds, whichever parameters each
/// of them uses. `synchronize` makes the round that is owed after passes that only accumulate, or if this
/// rank's backward() touched no parameter at all.
///
/// A gradient that is added to after it was reduced (another pass before `step`) is set aside as the slot's
/// `base`, and the reduced addition is added to it: only what is this rank's own is ever reduced.
///
/// Rounds since the last `step` or `zero_grad` are numbered in the tensors' names. Ranks that get out of step
/// with each other wait, and are named by the stall warning, instead of adding up gradients of different
/// passes.
///
/// Locking: autograd's threads call `before`, `after` and `leave_pass`, the user's thread the rest; `mutex`
/// guards everything. It is not held while `before` waits for a reduction: other ranks' threads may need this
/// rank's other threads for theirs. The end of a pass, and the user's thread, are alone and may wait under
/// it.
struct DistributedOptimizer::Parts {
  Parts(Runtime& runtime, std::unique_ptr<torch::optim::Optimizer> wrapped, const NamedTensors& parameters,
        DistributedOptions chosen)
      : hora(runtime),
        optimizer(std::move(wrapped)),
        options(std::move(chosen)),
        names(names_of(parameters)) {
    if (!optimizer) refuse("there is no optimizer: the pointer is null");
    if (options.op != ReduceOp::average && options.op != ReduceOp::sum)
      refuse("gradients are averaged or summed");
    if (options.name.empty()) options.name = fmt::to_string(hora.next_number());
    adopt_new();
  }

  ~Parts() { *alive = false; }
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;

  /// Takes in the parameters that get gradients, also those that were added or unfrozen since; on all ranks
  /// alike.
  void adopt_new() {
    std::vector<Slot> found;
    std::vector<torch::Tensor> tensors;
    for (std::size_t group = 0; group < optimizer->param_groups().size(); ++group) {
      const auto& params = optimizer->param_groups()[group].params();
      for (std::size_t i = 0; i < params.size(); ++i) {
        if (!params[i].requires_grad() || known.count(params[i].unsafeGetTensorImpl()) > 0) continue;
        const auto name = names.find(params[i].unsafeGetTensorImpl());
        if (name == names.end() && slots.empty()) {
          refuse(fmt::format("parameter {} of group {} has no name; pass all of model->named_parameters()", i,
                             group));
        }
        Slot slot{name == names.end() ? fmt::format("{}.{}", group, i) : name->second, params[i]};
        check_lendable(slot.parameter, slot.name);
        slot.accumulate = torch::autograd::impl::grad_accumulator(slot.parameter);
        refuse_if_taken(slot);
        found.push_back(std::move(slot));
        tensors.push_back(params[i]);
      }
    }
    auto places = make_gradient_places(hora, tensors);
    for (std::size_t i = 0; i < found.size(); ++i) {
      found[i].place = std::move(places[i]);
      // Elements are added up as they lie in memory. Ranks whose parameters lie differently must not meet.
      if (!found[i].place.is_contiguous())
        found[i].name += fmt::format(" (strides {})", fmt::join(found[i].place.strides().vec(), ", "));
      known.insert(tensors[i].unsafeGetTensorImpl());
      install_hooks(slots.emplace_back(std::move(found[i])));
    }
  }

  /// One parameter belongs to one DistributedOptimizer at a time.
  static void refuse_if_taken(const Slot& slot) {
    for (const auto& hook : slot.accumulate->pre_hooks()) {
      const auto* other = dynamic_cast<const BeforeGradient*>(hook.get());
      if (other != nullptr && other->alive())
        refuse(fmt::format("'{}' is in another DistributedOptimizer; end that one first", slot.name));
    }
  }

  /// Autograd's node owns the hooks until it goes, with the last graph that refers to it; they do nothing
  /// once this is gone.
  void install_hooks(Slot& slot) {
    slot.accumulate->add_pre_hook(std::make_unique<BeforeGradient>(alive, [this, &slot] { before(slot); }));
    slot.accumulate->add_post_hook(std::make_unique<AfterGradient>(alive, [this, &slot] { after(slot); }));
  }

  // --- during backward() ---

  /// backward() is about to add to this gradient.
  void before(Slot& slot) {
    std::unique_lock lock(mutex);
    enter_pass();
    if (slot.pending) {  // twice in one pass, or the last pass was interrupted
      const Handle handle = *slot.pending;
      lock.unlock();
      static_cast<void>(handle.wait_for(std::chrono::milliseconds::max()));  // `settle` tells how it ended
      lock.lock();
      settle(slot);
    }
    if (!slot.settled) return;
    if (is_shared(slot)) {
      slot.base = set_aside(slot);
      slot.parameter.mutable_grad().reset();
    }
    slot.settled = false;
  }

  void after(Slot& slot) {
    const std::lock_guard lock(mutex);
    enter_pass();
    if (reducing) submit(slot);
  }

  void enter_pass() {
    const int current = torch::autograd::get_current_graph_task_id();
    if (current == task) return;
    task = current;
    reducing = !accumulating;
    torch::autograd::Engine::get_default_engine().queue_callback([this, alive = alive, current] {
      if (*alive) leave_pass(current);
    });
  }

  void leave_pass(int ended) {
    const std::lock_guard lock(mutex);
    if (ended != task) return;
    task = kNoTask;
    if (reducing) {
      round();
    } else {
      owed = true;
    }
  }

  // --- a round ---

  /// Whether a settled gradient still is what it was: nobody has written to it after the step.
  [[nodiscard]] bool is_shared(const Slot& slot) const {
    const torch::Tensor& gradient = slot.parameter.grad();
    return rounds > 0 || !gradient.defined() || (slot.in_place() && gradient._version() == slot.version);
  }

  /// The gradient, where a reduction does not overwrite it.
  static torch::Tensor set_aside(const Slot& slot) {
    return slot.in_place() ? slot.parameter.grad().clone() : slot.parameter.grad();
  }

  void submit(Slot& slot) {
    const torch::NoGradGuard no_grad;
    slot.absent = !slot.parameter.grad().defined();
    if (slot.settled && is_shared(slot)) {
      slot.base = set_aside(slot);
      slot.absent = true;
    } else if (!slot.absent && !slot.in_place()) {
      put_in_place(slot);
    }
    Entry entry;
    entry.name = fmt::format("gradient.{}.{}", options.name, slot.name);
    if (slot.rounds > 0) entry.name += fmt::format(" (pass {})", slot.rounds % kMostNumbers + 1);
    entry.dtype = dtype_of(slot.place, slot.name);
    entry.shape = slot.place.sizes().vec();
    entry.input = entry.output = slot.place.data_ptr();
    entry.op = options.op;
    entry.wire = wire_of(options.compression);
    entry.absent = slot.absent;
    entry.done = [place = slot.place](const Result& /*result*/) {};  // keeps the memory until then
    slot.pending = hora.submit(std::move(entry));
    ++slot.rounds;
  }

  static void put_in_place(Slot& slot) {
    torch::Tensor& gradient = slot.parameter.mutable_grad();
    check_lendable(gradient, slot.name);
    if (gradient.scalar_type() != slot.place.scalar_type() || gradient.sizes() != slot.place.sizes()) {
      refuse(
          fmt::format("'{}': its gradient has another dtype or shape than the parameter had when its "
                      "DistributedOptimizer "
                      "was made; make that after converting the model",
                      slot.name));
    }
    slot.place.copy_(gradient);
    gradient = slot.place;
  }

  void settle(Slot& slot) {
    const Handle handle = *std::exchange(slot.pending, std::nullopt);
    const torch::Tensor base = std::exchange(slot.base, {});
    const Result& result = handle.wait();
    slot.settled = true;
    torch::Tensor& gradient = slot.parameter.mutable_grad();
    const bool cleared = !slot.absent && !gradient.defined();  // by the user, after backward() failed
    if (!result.contributed || cleared) return;
    gradient = slot.place;
    const torch::NoGradGuard no_grad;
    if (base.defined()) gradient.add_(base);
  }

  /// Reduces everything once, and waits for it.
  void round() {
    adopt_new();
    for (auto& slot : slots) {
      if (!slot.pending) submit(slot);
    }
    std::optional<Error> first;
    for (auto& slot : slots) {
      try {
        if (slot.pending) settle(slot);
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
    owed = false;
    ++rounds;
    if (first) throw Error(*first);
  }

  // --- between passes ---

  void synchronize() {
    const std::lock_guard lock(mutex);
    adopt_new();
    const bool own = std::any_of(slots.begin(), slots.end(), [](const Slot& slot) {
      return slot.pending || (!slot.settled && slot.parameter.grad().defined());
    });
    if (rounds == 0 || owed || own) round();
  }

  /// What a closure returned, over all ranks.
  torch::Tensor reduce_loss(const torch::Tensor& loss) const {
    if (!loss.defined()) return loss;
    return allreduce(hora, loss.detach().contiguous(),
                     {.name = fmt::format("loss.{}", options.name), .op = options.op});
  }

  /// What comes now belongs to the next step.
  void end_step() {
    rounds = 0;
    for (auto& slot : slots) {
      slot.rounds = 0;
      const torch::Tensor& gradient = slot.parameter.grad();
      slot.version = gradient.defined() ? gradient._version() : 0;
    }
  }

  /// Nothing of what was reduced counts any more: gradients are about to be cleared.
  void forget() {
    if (std::any_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.pending.has_value(); }))
      round();  // backward() failed; the other ranks wait for the rest
    task = kNoTask;
    owed = false;
    for (auto& slot : slots) slot.settled = false;
    end_step();
  }

  static constexpr int kNoTask = -1;

  Runtime& hora;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  DistributedOptions options;
  Alive alive = std::make_shared<bool>(true);  // for hooks, which may live longer
  std::mutex mutex;
  std::map<const void*, std::string> names;  // by tensor
  std::set<const void*> known;               // the tensors of the slots
  std::deque<Slot> slots;                    // hooks refer to them: they stay where they are
  unsigned rounds = 0;                       // since the last step or zero_grad
  int task = kNoTask;                        // autograd's number of the pass under way
  bool reducing = false;                     // that pass ends with a round
  bool owed = false;                         // a pass has only accumulated, on every rank
  bool accumulating = false;                 // under no_sync
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
      return parts_->reduce_loss(value);
    });
  } else {
    parts_->synchronize();
    loss = parts_->optimizer->step();
  }
  const std::lock_guard lock(parts_->mutex);
  parts_->end_step();
  return loss;
}

void DistributedOptimizer::zero_grad(bool set_to_none) {
  const std::lock_guard lock(parts_->mutex);
  parts_->forget();
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
