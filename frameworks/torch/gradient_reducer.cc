// SPDX-License-Identifier: Apache-2.0
#include "frameworks/rounds/round.h"
#include "frameworks/torch/gradient_buckets.h"
#include "frameworks/torch/gradient_hooks.h"
#include "frameworks/torch/gradient_pass.h"
#include "frameworks/torch/gradient_slot.h"
#include "frameworks/torch/reducer.h"
#include "frameworks/torch/tensor.h"
#include "frameworks/torch/text.h"

#include <torch/csrc/autograd/graph_task.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <utility>

namespace hora {
namespace {

using rounds::Action;
using rounds::After;
using rounds::Before;
using rounds::Bring;
using rounds::Settle;

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
/// Autograd's threads call `before` and `after`; RoundMaker says how they are locked. The mutex is not held
/// while `before` waits for a reduction: other ranks' threads may need this rank's other threads for theirs.
class GradientReducer final : public Reducer, private RoundMaker {
 public:
  GradientReducer(Runtime& hora, torch::optim::Optimizer& optimizer, Parameters parameters,
                  DistributedOptions options)
      : RoundMaker("gradient." + options.name, options.backward_passes_per_step, options.sparse_as_dense),
        hora_(hora),
        optimizer_(optimizer),
        parameters_(std::move(parameters)),
        options_(std::move(options)),
        generation_(hora.generation()) {
    adopt_new();
  }

  void synchronize() override {
    if (holds_former_gradients()) return;
    follow_generation();
    end_failed_pass();
    {
      const std::lock_guard lock(mutex_);
      if (!state_.spoiled().empty()) throw Error(Code::rank_failed, state_.spoiled());
      adopt_new();
      if (!has_unreduced() && !state_.owes_round()) return;
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
    follow_generation();
    finish();
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
    std::vector<Parameter> fresh = parameters_.adopt(optimizer_);
    const std::vector<int> units = units_of(static_cast<std::int64_t>(fresh.size()));
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      const int number = state_.add_parameter(fresh[i].name, units[i], rounds::kDense);
      GradientSlot& slot = slots_.emplace_back(std::move(fresh[i]), number);
      install_hooks(
          *slot.accumulate, alive(), [this, &slot] { run_hook([&] { before(slot); }); },
          [this, &slot] { run_hook([&] { after(slot); }); });
    }
    // A process that joins a running job shares the memory of the others on its host once it is there.
    if (!is_alone()) find_places();
  }

  /// Whether this process is going to join a running job.
  [[nodiscard]] bool is_alone() const { return hora_.is_elastic() && generation_ == 0; }

  /// Gives places to the slots that have none.
  void find_places() {
    std::vector<Parameter*> without;
    for (auto& slot : slots_) {
      if (!slot.place.defined()) without.push_back(&slot);
    }
    give_places(hora_, without);
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

  GradientSlot& slot_of(int parameter) { return slots_[static_cast<std::size_t>(parameter)]; }

  /// Whether this rank has gradients that were not reduced.
  bool has_unreduced() {
    const auto unsettled = state_.unsettled();
    return std::any_of(unsettled.begin(), unsettled.end(),
                       [this](int parameter) { return slot_of(parameter).has_gradient(); });
  }

  /// Whether the job has gone on with other ranks, and all gradients were reduced before that: those of a
  /// step that may count.
  bool holds_former_gradients() {
    const std::lock_guard lock(mutex_);
    return hora_.generation() != generation_ && state_.pass() == rounds::ReducerState::kNoPass &&
           state_.pending().empty() && state_.spoiled().empty() && !state_.owes_round() && !has_unreduced();
  }

  /// If the job has gone on with other ranks, nothing is being reduced any more. Gradients are undefined:
  /// some are this rank's, others reduced.
  void follow_generation() {
    const std::lock_guard lock(mutex_);
    if (hora_.generation() == generation_) return;
    const bool was_alone = is_alone();
    for (auto& slot : slots_) {
      slot.pending.reset();
      slot.end_step();
      slot.tensor.mutable_grad().reset();
      if (was_alone) slot.place.reset();
    }
    state_.begin_generation();
    find_places();
    generation_ = hora_.generation();
  }

  // --- during backward() ---

  /// backward() is about to add to this gradient. It stops if what it makes cannot be reduced any more.
  void before(GradientSlot& slot) {
    follow_generation();
    const int pass = torch::autograd::get_current_graph_task_id();
    std::unique_lock lock(mutex_);
    if (!slot.place.defined()) find_places();
    if (hora_.generation_has_ended() && !state_.is_accumulating())
      throw Error(Code::generation_ended, "the generation of the job has ended while backward() ran");
    for (Before todo; (todo = state_.before(slot.number, pass)) != Before::nothing;) {
      if (todo == Before::begin) {
        begin_pass(pass, hora_.can_overlap(), lock);
      } else if (todo == Before::settle) {
        settle_now(state_.pending_with(slot.number), lock);
      } else if (state_.touch(slot.number, slot.has_gradient(), slot.is_unchanged())) {
        slot.set_aside();
        slot.tensor.mutable_grad().reset();
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

  void after(GradientSlot& slot) {
    const int pass = torch::autograd::get_current_graph_task_id();
    std::unique_lock lock(mutex_);
    slot.refuse_graph();
    After todo = state_.after(slot.number, pass, slot.is_on_host());
    if (todo == After::begin) {
      begin_pass(pass, hora_.can_overlap(), lock);
      todo = state_.after(slot.number, pass, slot.is_on_host());
    }
    if (todo == After::unexpected) {
      throw Error(
          Code::invalid_argument,
          text_of("'{}' was converted or moved after its DistributedOptimizer was made; make that afterwards",
                  slot.name));
    }
    const torch::NoGradGuard no_grad;
    if (todo == After::place) put_in_place(slot);
    if (todo == After::submit) submit(state_.units().members_with(slot.number));
  }

  // --- a round ---

  void carry_out(const Action& action) override {
    const torch::NoGradGuard no_grad;
    switch (action.kind) {
      case Action::Kind::adopt: return adopt_new();
      case Action::Kind::submit: return for_all(action.units, [this](const auto& unit) { submit(unit); });
      case Action::Kind::settle:
        return for_all(action.parameters, [this](int each) { settle(slot_of(each)); });
      case Action::Kind::spoil:
        for (auto& slot : slots_) slot.tensor.mutable_grad().reset();
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
      GradientSlot& slot = slot_of(each);
      const Bring bring = state_.bring(each, slot.has_gradient(), slot.is_unchanged());
      if (bring == Bring::set_aside) slot.set_aside();
      if (bring == Bring::gradient) put_in_place(slot);
      entries.push_back(entry_of(slot, bring != Bring::gradient));
    }
    const auto handles = hora_.submit(std::move(entries));
    for (std::size_t i = 0; i < handles.size(); ++i) {
      GradientSlot& slot = slot_of(parameters[i]);
      slot.pending = handles[i];
      if (options_.check_finite) slot.look_at();
    }
    state_.submitted(parameters);
  }

  [[nodiscard]] Entry entry_of(const GradientSlot& slot, bool absent) const {
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

  void put_in_place(GradientSlot& slot) {
    slot.put_in_place(hora_, options_.sparse_as_dense, /*for_later=*/!state_.overlaps());
  }

  void settle(GradientSlot& slot) {
    const torch::Tensor base = std::exchange(slot.base, {});
    bool contributed = false;
    try {
      contributed = slot.wait();
    } catch (const Error&) {
      state_.lost(slot.number);
      throw;
    }
    const Settle then = state_.settled(slot.number, contributed, slot.has_gradient());
    if (then == Settle::leave) return;
    slot.tensor.mutable_grad() = slot.place;
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
    for (auto& slot : slots_) slot.end_step();
  }

  Runtime& hora_;
  torch::optim::Optimizer& optimizer_;
  Parameters parameters_;
  DistributedOptions options_;
  std::uint64_t generation_;        // in which it reduces
  std::deque<GradientSlot> slots_;  // by number; hooks refer to them: they stay where they are
};

}  // namespace

std::unique_ptr<Reducer> make_gradient_reducer(Runtime& hora, torch::optim::Optimizer& optimizer,
                                               Parameters parameters, const DistributedOptions& options) {
  return std::make_unique<GradientReducer>(hora, optimizer, std::move(parameters), options);
}

}  // namespace hora
