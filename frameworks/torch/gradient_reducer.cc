// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/round.h"
#include "frameworks/torch/gradient_hooks.h"
#include "frameworks/torch/gradient_pass.h"
#include "frameworks/torch/reducer.h"
#include "frameworks/torch/tensor.h"
#include "frameworks/torch/text.h"

#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <optional>

namespace hora {
namespace {

using rounds::Action;
using rounds::After;
using rounds::Before;
using rounds::Bring;
using rounds::Settle;

constexpr std::size_t kLarge = 64 * 1024;  // bytes of a gradient for whose copy caches matter

/// One parameter, and the tensors of its gradient.
struct Slot {
  int number;  // of the parameter in the ReducerState
  std::string name;
  torch::Tensor parameter;
  torch::Tensor place;  // where its gradient lies while it is reduced
  NodePointer accumulate;
  std::optional<Handle> pending = {};  // the reduction under way
  torch::Tensor base = {};             // what was reduced before and is to be added to
  std::int64_t version = 0;            // of the gradient, when the last step ended
  std::vector<Handle> looked_at = {};  // what has made the gradient, and tells whether it is finite
  bool unseen = false;                 // more has been done to it after that

  Slot(Parameter given, int parameter_number)
      : number(parameter_number),
        name(std::move(given.name)),
        parameter(std::move(given.tensor)),
        place(std::move(given.place)),
        accumulate(std::move(given.accumulate)) {}

  [[nodiscard]] bool is_on_host() const { return lies_on(place).kind == DeviceKind::host; }
  [[nodiscard]] bool is_large() const { return place.nbytes() >= kLarge; }
  [[nodiscard]] bool has_gradient() const { return parameter.grad().defined(); }
  [[nodiscard]] bool in_place() const {
    const torch::Tensor& gradient = parameter.grad();
    return gradient.defined() && gradient.layout() == torch::kStrided &&
           gradient.data_ptr() == place.data_ptr();
  }
  /// Whether nobody has written to a reduced gradient since the last step.
  [[nodiscard]] bool is_unchanged() const { return in_place() && parameter.grad()._version() == version; }
  /// Keeps the gradient as the base, where a reduction does not overwrite it.
  void set_aside() { base = in_place() ? parameter.grad().clone() : parameter.grad(); }
};

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

/// Does `action` to each, also after an error. Throws the first one.
template <typename List, typename Do>
void for_all(const List& list, const Do& action) {
  std::exception_ptr first;
  for (const auto& each : list) {
    try {
      action(each);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

/// Hooks and copies for the rounds of one optimizer; rounds::ReducerState says when.
///
/// A pass that fails is found by the next thing that is done with the optimizer: `zero_grad`, `synchronize`,
/// `step` or another pass. A pass that fails before it reaches a gradient has not begun here: this rank makes
/// the round with its next pass.
///
/// Locking: autograd's threads call `before` and `after`, and at the end of a pass `leave_pass` and the
/// round. The user's thread calls the rest. `mutex_` guards everything. It is not held while `before` waits
/// for a reduction: other ranks' threads may need this rank's other threads for theirs. A round holds the
/// mutexes of all its reducers, in the order of their addresses, and waits under them: the end of a pass, and
/// the user's thread, are alone. Passes lock the list of passes under no mutex that a round waits for.
class GradientReducer final : public Reducer, private RoundMaker {
 public:
  GradientReducer(Runtime& hora, torch::optim::Optimizer& optimizer, Parameters parameters,
                  DistributedOptions options)
      : hora_(hora),
        optimizer_(optimizer),
        parameters_(std::move(parameters)),
        options_(std::move(options)),
        state_("gradient." + options_.name, options_.backward_passes_per_step, options_.sparse_as_dense) {
    adopt_new();
  }
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer() override { *alive_ = false; }

  void synchronize() override {
    end_failed_pass();
    {
      const std::lock_guard lock(mutex_);
      if (!state_.spoiled().empty()) throw Error(Code::rank_failed, state_.spoiled());
      adopt_new();
      const bool own = std::any_of(slots_.begin(), slots_.end(), [this](const Slot& slot) {
        return !state_.is_settled(slot.number) && slot.has_gradient();
      });
      if (!own && !state_.owes_round()) return;
    }
    make_rounds({this}, /*has_failed=*/false);
  }

  torch::Tensor step(const Closure& closure) override {
    torch::Tensor loss;
    if (closure) {
      loss = optimizer_.step([&] {
        const torch::Tensor value = closure();
        synchronize();
        return reduce_loss(value);
      });
    } else {
      synchronize();
      loss = optimizer_.step();
    }
    const std::lock_guard lock(mutex_);
    end_step();
    return loss;
  }

  void zero_grad(bool set_to_none) override {
    end_failed_pass();
    if (abandon()) make_rounds({this}, /*has_failed=*/true);  // the other ranks wait for the rest
    const std::lock_guard lock(mutex_);
    state_.forget();
    end_step();
    optimizer_.zero_grad(set_to_none);
  }

  void set_accumulating(bool accumulating) override {
    const std::lock_guard lock(mutex_);
    state_.set_accumulating(accumulating);
  }

  bool gradients_finite() override {
    const std::lock_guard lock(mutex_);
    std::vector<torch::Tensor> unseen;
    for (const auto& slot : slots_) {
      for (const auto& handle : slot.looked_at) {
        if (!handle.wait().finite) return false;
      }
      if (slot.unseen) unseen.push_back(slot.place);
    }
    return all_finite(unseen);
  }

 private:
  void adopt_new() {
    std::vector<Parameter> fresh = parameters_.adopt(hora_, optimizer_);
    const std::vector<int> units = units_of(static_cast<std::int64_t>(fresh.size()));
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      const int number = state_.add_parameter(fresh[i].name, units[i], rounds::kDense);
      Slot& slot = slots_.emplace_back(std::move(fresh[i]), number);
      install_hooks(
          *slot.accumulate, alive_, [this, &slot] { noting_failure([&] { before(slot); }); },
          [this, &slot] { noting_failure([&] { after(slot); }); });
    }
  }

  /// New units for as many new parameters: in order, the first with one more if they cannot be equal.
  std::vector<int> units_of(std::int64_t parameters) {
    std::vector<int> units;
    const int parts = options_.groups > 0 ? options_.groups : static_cast<int>(parameters);
    for (const auto length : scattered_rows(parameters, std::max(parts, 1))) {
      if (length > 0) units.insert(units.end(), static_cast<std::size_t>(length), state_.units().add_unit());
    }
    return units;
  }

  Slot& slot_of(int parameter) { return slots_[static_cast<std::size_t>(parameter)]; }

  // --- during backward() ---

  /// Remembers what a hook throws: the pass has failed on this rank.
  template <typename Do>
  void noting_failure(const Do& action) {
    try {
      action();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      state_.note_failure(text_of("backward() failed: {}", error.what()));
      throw;
    }
  }

  /// Ends a pass that has begun and not ended: it has failed. Makes its rounds, also of other reducers.
  void end_failed_pass() {
    std::shared_ptr<GradientPass> failed;
    {
      const std::lock_guard lock(mutex_);
      if (state_.pass() != rounds::ReducerState::kNoPass) failed = pass_;
    }
    if (failed) failed->fail();
  }

  /// The first hook of a pass. Makes up the rounds of a pass that failed before this one, without the lock.
  void begin_pass(int pass, std::unique_lock<std::mutex>& lock) {
    while (state_.pass() != rounds::ReducerState::kNoPass && state_.pass() != pass &&
           pass_->is_over()) {  // else this pass is within that one
      const auto failed = pass_;
      lock.unlock();
      failed->fail();
      lock.lock();
    }
    if (state_.begin(pass, hora_.can_overlap())) pass_ = GradientPass::enter(*this, alive_);
  }

  /// backward() is about to add to this gradient.
  void before(Slot& slot) {
    const int pass = torch::autograd::get_current_graph_task_id();
    std::unique_lock lock(mutex_);
    for (Before todo; (todo = state_.before(slot.number, pass)) != Before::nothing;) {
      if (todo == Before::begin) {
        begin_pass(pass, lock);
      } else if (todo == Before::settle) {
        settle_now(state_.pending_with(slot.number), lock);
      } else if (state_.touch(slot.number, slot.has_gradient(), slot.is_unchanged())) {
        slot.set_aside();
        slot.parameter.mutable_grad().reset();
      }
    }
  }

  /// Waits without the lock. `settle` tells how the reductions ended.
  void settle_now(const std::vector<int>& parameters, std::unique_lock<std::mutex>& lock) {
    std::vector<Handle> handles;
    for (const int each : parameters) handles.push_back(slot_of(each).pending.value());
    lock.unlock();
    for (const auto& handle : handles)
      static_cast<void>(handle.wait_launched_for(std::chrono::milliseconds::max()));
    lock.lock();
    for_all(parameters, [this](int each) { settle(slot_of(each)); });
  }

  void after(Slot& slot) {
    const int pass = torch::autograd::get_current_graph_task_id();
    std::unique_lock lock(mutex_);
    refuse_graph(slot);
    After todo = state_.after(slot.number, pass, slot.is_on_host());
    if (todo == After::begin) {
      begin_pass(pass, lock);
      todo = state_.after(slot.number, pass, slot.is_on_host());
    }
    if (todo == After::unexpected) {
      refuse(
          text_of("'{}' was converted or moved after its DistributedOptimizer was made; make that afterwards",
                  slot.name));
    }
    const torch::NoGradGuard no_grad;
    if (todo == After::place) put_in_place(slot);
    if (todo == After::submit) submit(state_.units().members_with(slot.number));
  }

  static void refuse_graph(const Slot& slot) {
    const torch::Tensor& gradient = slot.parameter.grad();
    if (!gradient.defined() || !gradient.requires_grad()) return;
    refuse(
        text_of("'{}': backward(create_graph=true) cannot be reduced; use torch::autograd::grad with "
                "create_graph=true for the inner gradient",
                slot.name));
  }

  bool leave_pass(int ended) override {
    const std::lock_guard lock(mutex_);
    return state_.leave(ended);
  }

  bool fail_pass(int failed) override {
    const std::lock_guard lock(mutex_);
    return failed == state_.pass() && state_.fail("backward() failed");
  }

  bool abandon() {
    const std::lock_guard lock(mutex_);
    return state_.abandon();
  }

  // --- a round ---

  rounds::ReducerState& state() override { return state_; }
  std::mutex& mutex() override { return mutex_; }

  void carry_out(const Action& action) override {
    const torch::NoGradGuard no_grad;
    switch (action.kind) {
      case Action::Kind::adopt: return adopt_new();
      case Action::Kind::submit: return for_all(action.units, [this](const auto& unit) { submit(unit); });
      case Action::Kind::settle:
        return for_all(action.parameters, [this](int each) { settle(slot_of(each)); });
      case Action::Kind::spoil:
        for (auto& slot : slots_) slot.parameter.mutable_grad().reset();
        return;
      case Action::Kind::ask:
      case Action::Kind::look:
      case Action::Kind::learn:
      case Action::Kind::pause: break;  // all gradients are dense here
    }
  }

  void submit(const std::vector<int>& parameters) {
    std::vector<Entry> entries;
    for (const int each : parameters) {
      Slot& slot = slot_of(each);
      const Bring bring = state_.bring(each, slot.has_gradient(), slot.is_unchanged());
      if (bring == Bring::set_aside) slot.set_aside();
      if (bring == Bring::gradient) put_in_place(slot);
      entries.push_back(entry_of(slot, bring != Bring::gradient));
    }
    const auto handles = hora_.submit(std::move(entries));
    for (std::size_t i = 0; i < handles.size(); ++i) {
      Slot& slot = slot_of(parameters[i]);
      slot.pending = handles[i];
      if (options_.check_finite) look_at(slot);
    }
    state_.submitted(parameters);
  }

  /// Notes who will know whether the gradient is finite: what is added to one that was reduced before counts
  /// with it.
  static void look_at(Slot& slot) {
    if (!slot.base.defined()) {
      slot.looked_at.clear();
      slot.unseen = false;
    }
    slot.looked_at.push_back(*slot.pending);
  }

  [[nodiscard]] Entry entry_of(const Slot& slot, bool absent) const {
    Entry entry =
        lend(slot.place, slot.place, Operation::allreduce, state_.name_of(slot.number), options_.process_set);
    entry.op = options_.op;
    entry.prescale = 1.0 / options_.gradient_predivide_factor;
    entry.postscale = options_.gradient_predivide_factor;
    entry.wire = wire_of(options_.compression);
    entry.absent = absent;
    entry.failed_with = state_.failed_with();
    if (!slot.place.is_contiguous()) entry.strides = slot.place.strides().vec();
    entry.check_finite = options_.check_finite;
    entry.padded = true;  // places begin with cache lines
    return entry;
  }

  /// Brings a gradient to where it is reduced.
  void put_in_place(Slot& slot) const {
    if (slot.in_place()) return;
    torch::Tensor& gradient = slot.parameter.mutable_grad();
    if (gradient.layout() != torch::kStrided) {
      if (!options_.sparse_as_dense) {
        refuse(text_of("'{}': its gradient is sparse; set sparse_as_dense in the DistributedOptions",
                       slot.name));
      }
      gradient = gradient.to_dense();
    }
    check_lendable(gradient, slot.name);
    if (gradient.scalar_type() != slot.place.scalar_type() || gradient.sizes() != slot.place.sizes() ||
        gradient.device() != slot.place.device()) {
      refuse(
          text_of("'{}': its gradient has another dtype, shape or device than the parameter had when its "
                  "DistributedOptimizer was made; make that after converting the model",
                  slot.name));
    }
    const bool same_layout = gradient.strides() == slot.place.strides() && !gradient.is_neg();
    if (!state_.overlaps() && same_layout && slot.is_large() && slot.is_on_host()) {
      hora_.copy_for_later(slot.place.data_ptr(), gradient.data_ptr(), slot.place.nbytes());
    } else {
      slot.place.copy_(gradient);
    }
    gradient = slot.place;
  }

  void settle(Slot& slot) {
    const Handle handle = *std::exchange(slot.pending, std::nullopt);
    const torch::Tensor base = std::exchange(slot.base, {});
    const Device device = lies_on(slot.place);
    bool contributed = false;
    try {
      contributed = (device.kind == DeviceKind::host ? handle.wait() : handle.wait_on(current_stream(device)))
                        .contributed;
    } catch (const Error&) {
      state_.lost(slot.number);
      throw;
    }
    const Settle then = state_.settled(slot.number, contributed, slot.has_gradient());
    if (then == Settle::leave) return;
    slot.parameter.mutable_grad() = slot.place;
    if (then == Settle::take) return;
    const torch::NoGradGuard no_grad;
    slot.place.add_(base);
    slot.unseen = true;
  }

  // --- between passes ---

  /// The loss that a closure returned, averaged over all ranks.
  torch::Tensor reduce_loss(const torch::Tensor& loss) const {
    if (!loss.defined()) return loss;
    return allreduce(
        hora_, loss.detach(),
        {.name = "loss." + options_.name, .op = options_.op, .process_set = options_.process_set});
  }

  /// Gradients that come now belong to the next step.
  void end_step() {
    state_.end_step();
    for (auto& slot : slots_) {
      slot.looked_at.clear();
      slot.unseen = false;
      slot.version = slot.has_gradient() ? slot.parameter.grad()._version() : 0;
    }
  }

  Runtime& hora_;
  torch::optim::Optimizer& optimizer_;
  Parameters parameters_;
  DistributedOptions options_;
  Alive alive_ = std::make_shared<bool>(true);
  std::mutex mutex_;
  rounds::ReducerState state_;
  std::deque<Slot> slots_;              // by number; hooks refer to them: they stay where they are
  std::shared_ptr<GradientPass> pass_;  // the last one
};

}  // namespace

std::unique_ptr<Reducer> make_gradient_reducer(Runtime& hora, torch::optim::Optimizer& optimizer,
                                               Parameters parameters, const DistributedOptions& options) {
  return std::make_unique<GradientReducer>(hora, optimizer, std::move(parameters), options);
}

}  // namespace hora
