// SPDX-License-Identifier: Apache-2.0
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

constexpr unsigned kMostNumbers = 8;       // names of a gradient's rounds, which then repeat
constexpr std::size_t kLarge = 64 * 1024;  // bytes of a gradient for whose copy caches matter

struct Slot;

/// Gradients that are submitted together.
struct Unit {
  std::vector<Slot*> slots;
};

/// One parameter, and how far its gradient is.
struct Slot {
  std::string name;
  torch::Tensor parameter;
  torch::Tensor place;  // where its gradient lies while it is reduced
  NodePointer accumulate;
  Unit* unit = nullptr;
  bool ready = false;                  // its gradient may be submitted, once those of the whole unit may
  std::optional<Handle> pending = {};  // the reduction under way
  bool absent = false;                 // what is pending has nothing from this rank
  torch::Tensor base = {};             // what was reduced before and is to be added to
  bool settled = false;                // the gradient, if there is one, is the same on all ranks
  std::int64_t version = 0;            // of a settled gradient, when the last step ended
  unsigned rounds = 0;                 // since the last step or zero_grad
  std::vector<Handle> looked_at = {};  // what has made the gradient, and tells whether it is finite
  bool unseen = false;                 // more has been done to it after that

  explicit Slot(Parameter given)
      : name(std::move(given.name)),
        parameter(std::move(given.tensor)),
        place(std::move(given.place)),
        accumulate(std::move(given.accumulate)) {}

  [[nodiscard]] bool is_on_host() const { return lies_on(place).kind == DeviceKind::host; }
  [[nodiscard]] bool is_large() const { return place.nbytes() >= kLarge; }
  [[nodiscard]] bool in_place() const {
    const torch::Tensor& gradient = parameter.grad();
    return gradient.defined() && gradient.layout() == torch::kStrided &&
           gradient.data_ptr() == place.data_ptr();
  }
  /// The gradient, where a reduction does not overwrite it.
  [[nodiscard]] torch::Tensor set_aside() const {
    return in_place() ? parameter.grad().clone() : parameter.grad();
  }
};

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

/// A round reduces what every rank has gathered in its gradients since the round before, each gradient once.
/// A pass of backward() that is to reduce is one round: hooks submit gradients as they come, or only bring
/// them to their places where nothing can overlap (Runtime::can_overlap); when the pass ends, before
/// backward() returns, the rest is submitted, too, and all is waited for. So gradients are the reduced ones
/// whenever the user can see them, and all ranks make the same rounds, whichever parameters each of them
/// uses. `synchronize` makes the round that is owed after passes that only accumulate, or if this rank's
/// backward() touched no parameter at all. Reducers whose parameters one pass reaches make their rounds
/// together (GradientPass).
///
/// A gradient that is added to after it was reduced (another pass before `step`) is set aside as the slot's
/// `base`, and the reduced addition is added to it: only what is this rank's own is ever reduced.
///
/// A pass that fails on this rank leaves its round to be made up, by the next thing that is done with the
/// optimizer: `zero_grad`, `synchronize`, `step` or another pass. Gradients that were not submitted yet are
/// then submitted as missing, with the reason (Entry::failed_with), and so the round fails on all ranks. The
/// last unit of a pass waits for its end, so that there always is one that was not submitted. After such a
/// round no rank has gradients. A pass that fails before it reaches a gradient has not begun here: this rank
/// makes the round with its next pass.
///
/// Rounds since the last `step` or `zero_grad` are numbered in the tensors' names. Ranks that get out of step
/// with each other wait, and are named by the stall warning, instead of adding up gradients of different
/// passes.
///
/// Locking: autograd's threads call `before` and `after`, and at the end of a pass `leave_pass`, `open_round`
/// and `close_round`. The user's thread calls the rest. `mutex_` guards everything. It is not held while
/// `before` waits for a reduction: other ranks' threads may need this rank's other threads for theirs. Nor is
/// it held while rounds of a failed pass are made up, which takes the locks of all reducers in turn. The end
/// of a pass, and the user's thread, are alone and may wait under it.
class GradientReducer final : public Reducer, private RoundMaker {
 public:
  GradientReducer(Runtime& hora, torch::optim::Optimizer& optimizer, Parameters parameters,
                  DistributedOptions options)
      : hora_(hora), optimizer_(optimizer), parameters_(std::move(parameters)), options_(std::move(options)) {
    adopt_new();
  }
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;
  ~GradientReducer() override { *alive_ = false; }

  void synchronize() override {
    end_failed_pass();
    const std::lock_guard lock(mutex_);
    if (!spoiled_.ok()) throw Error(spoiled_);
    adopt_new();
    const bool own = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) {
      return slot.pending || (!slot.settled && slot.parameter.grad().defined());
    });
    if (rounds_ == 0 || owed_ || own || !failed_with_.empty()) round();
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
    const std::lock_guard lock(mutex_);
    forget();
    optimizer_.zero_grad(set_to_none);
  }

  void set_accumulating(bool accumulating) override {
    const std::lock_guard lock(mutex_);
    accumulating_ = accumulating;
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
    std::vector<Slot*> fresh;
    for (auto& parameter : parameters_.adopt(hora_, optimizer_)) {
      Slot& slot = slots_.emplace_back(std::move(parameter));
      hora::install_hooks(
          *slot.accumulate, alive_, [this, &slot] { noting_failure([&] { before(slot); }); },
          [this, &slot] { noting_failure([&] { after(slot); }); });
      fresh.push_back(&slot);
    }
    make_units(fresh);
  }

  /// In order, the first with one more if the parts cannot be equal.
  void make_units(const std::vector<Slot*>& fresh) {
    const auto count = static_cast<std::int64_t>(fresh.size());
    const int parts = options_.groups > 0 ? options_.groups : static_cast<int>(count);
    auto next = fresh.begin();
    for (const auto length : scattered_rows(count, std::max(parts, 1))) {
      if (length == 0) break;
      units_.push_back({{next, next + length}});
      for (Slot* slot : units_.back().slots) slot->unit = &units_.back();
      next += length;
    }
  }

  // --- during backward() ---

  /// Remembers what a hook throws: the pass has failed on this rank.
  template <typename Action>
  void noting_failure(const Action& action) {
    try {
      action();
    } catch (const std::exception& error) {
      const std::lock_guard lock(mutex_);
      note_failure(text_of("backward() failed: {}", error.what()));
      throw;
    }
  }

  /// The first reason counts.
  void note_failure(const std::string& why) {
    if (failed_with_.empty()) failed_with_ = why;
  }

  /// A pass that has begun and not ended has failed. Makes its rounds, also those of other reducers.
  void end_failed_pass() {
    std::shared_ptr<GradientPass> failed;
    {
      const std::lock_guard lock(mutex_);
      if (task_ != kNoTask) failed = pass_;
    }
    if (failed) failed->fail();
  }

  /// backward() is about to add to this gradient.
  void before(Slot& slot) {
    std::unique_lock lock(mutex_);
    enter_pass(lock);
    if (slot.pending) {  // twice in one pass, or the last pass was interrupted
      wait_for(*slot.unit, lock);
      --submitted_;
      settle_all(slot.unit->slots);
    }
    if (!slot.settled) return;
    if (is_shared(slot)) {
      slot.base = slot.set_aside();
      slot.parameter.mutable_grad().reset();
    }
    slot.settled = false;
  }

  /// Waits without the lock. `settle` tells how the reductions ended.
  static void wait_for(const Unit& unit, std::unique_lock<std::mutex>& lock) {
    std::vector<Handle> handles;
    for (const Slot* slot : unit.slots) {
      if (slot->pending) handles.push_back(*slot->pending);
    }
    lock.unlock();
    for (const auto& handle : handles)
      static_cast<void>(handle.wait_launched_for(std::chrono::milliseconds::max()));
    lock.lock();
  }

  void after(Slot& slot) {
    std::unique_lock lock(mutex_);
    enter_pass(lock);
    refuse_graph(slot);
    if (!reducing_ || !failed_with_.empty()) return;
    if (!overlaps_ && slot.is_on_host()) {
      const torch::NoGradGuard no_grad;
      return prepare(slot);  // so autograd has its memory again
    }
    slot.ready = true;
    const auto& members = slot.unit->slots;
    const bool last = submitted_ + 1 >= units_.size();  // which waits for the end of the pass
    if (!last &&
        std::all_of(members.begin(), members.end(), [](const Slot* member) { return member->ready; }))
      submit(*slot.unit);
  }

  static void refuse_graph(const Slot& slot) {
    const torch::Tensor& gradient = slot.parameter.grad();
    if (!gradient.defined() || !gradient.requires_grad()) return;
    refuse(
        text_of("'{}': backward(create_graph=true) cannot be reduced; use torch::autograd::grad with "
                "create_graph=true for the inner gradient",
                slot.name));
  }

  /// Makes up the rounds of a pass that failed before this one, without the lock.
  void enter_pass(std::unique_lock<std::mutex>& lock) {
    const int current = torch::autograd::get_current_graph_task_id();
    while (task_ != kNoTask && task_ != current && pass_->is_over()) {  // else this pass is within that one
      const auto failed = pass_;
      lock.unlock();
      failed->fail();
      lock.lock();
    }
    if (current == task_) return;
    spoiled_ = {};
    task_ = current;
    pass_ = GradientPass::enter(*this, alive_);
    reducing_ = !accumulating_ && passes_ + 1 >= options_.backward_passes_per_step;
    overlaps_ = hora_.can_overlap();
  }

  bool leave_pass(int ended) override {
    const std::lock_guard lock(mutex_);
    if (ended != task_) return false;
    task_ = kNoTask;
    ++passes_;
    if (!reducing_) owed_ = true;
    return reducing_;
  }

  bool fail_pass(int failed) override {
    const std::lock_guard lock(mutex_);
    if (failed != task_) return false;
    task_ = kNoTask;
    ++passes_;
    note_failure("backward() failed");
    return reducing_;
  }

  void open_round() override {
    const std::lock_guard lock(mutex_);
    open();
  }

  void close_round() override {
    const std::lock_guard lock(mutex_);
    close();
  }

  // --- a round ---

  /// Whether a settled gradient still is what it was: nobody has written to it after the step.
  [[nodiscard]] bool is_shared(const Slot& slot) const {
    const torch::Tensor& gradient = slot.parameter.grad();
    return rounds_ > 0 || !gradient.defined() || (slot.in_place() && gradient._version() == slot.version);
  }

  void submit(Unit& unit) {
    const torch::NoGradGuard no_grad;
    std::vector<Entry> entries;
    for (Slot* slot : unit.slots) {
      slot->ready = false;
      if (failed_with_.empty()) {
        prepare(*slot);
      } else {
        slot->absent = true;
      }
    }
    for (Slot* slot : unit.slots) entries.push_back(entry_of(*slot));
    const auto handles = hora_.submit(std::move(entries));
    for (std::size_t i = 0; i < handles.size(); ++i) {
      unit.slots[i]->pending = handles[i];
      if (options_.check_finite) look_at(*unit.slots[i]);
      ++unit.slots[i]->rounds;
    }
    ++submitted_;
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

  /// Brings what is this rank's own to its place.
  void prepare(Slot& slot) const {
    slot.absent = !slot.parameter.grad().defined();
    if (slot.settled && is_shared(slot)) {
      slot.base = slot.set_aside();
      slot.absent = true;
    } else if (!slot.absent && !slot.in_place()) {
      put_in_place(slot);
    }
  }

  [[nodiscard]] Entry entry_of(const Slot& slot) const {
    std::string name = "gradient." + options_.name + "." + slot.name;
    if (slot.rounds > 0) name += " (pass " + std::to_string(slot.rounds % kMostNumbers + 1) + ")";
    Entry entry = lend(slot.place, slot.place, Operation::allreduce, name, options_.process_set);
    entry.op = options_.op;
    entry.prescale = 1.0 / options_.gradient_predivide_factor;
    entry.postscale = options_.gradient_predivide_factor;
    entry.wire = wire_of(options_.compression);
    entry.absent = slot.absent;
    entry.failed_with = failed_with_;
    if (!slot.place.is_contiguous()) entry.strides = slot.place.strides().vec();
    entry.check_finite = options_.check_finite;
    entry.padded = true;  // places begin with cache lines
    return entry;
  }

  void put_in_place(Slot& slot) const {
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
    if (!overlaps_ && same_layout && slot.is_large() && slot.is_on_host()) {
      hora_.copy_for_later(slot.place.data_ptr(), gradient.data_ptr(), slot.place.nbytes());
    } else {
      slot.place.copy_(gradient);
    }
    gradient = slot.place;
  }

  static void settle(Slot& slot) {
    const Handle handle = *std::exchange(slot.pending, std::nullopt);
    const torch::Tensor base = std::exchange(slot.base, {});
    const Device device = lies_on(slot.place);
    const Result& result =
        device.kind == DeviceKind::host ? handle.wait() : handle.wait_on(current_stream(device));
    slot.settled = true;
    torch::Tensor& gradient = slot.parameter.mutable_grad();
    const bool cleared = !slot.absent && !gradient.defined();  // by the user, after backward() failed
    if (!result.contributed || cleared) return;
    gradient = slot.place;
    if (!base.defined()) return;
    const torch::NoGradGuard no_grad;
    gradient.add_(base);
    slot.unseen = true;
  }

  /// Waits for what is under way. Throws the first error, once all have ended.
  static void settle_all(const std::vector<Slot*>& slots) {
    std::optional<Error> first;
    for (Slot* slot : slots) {
      try {
        if (slot->pending) settle(*slot);
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
    if (first) throw Error(*first);
  }

  /// Reduces everything once, and waits for it. Throws the first error, once all has ended.
  void round() {
    const BlockingScope blocking;
    open();
    close();
  }

  /// Submits what was not submitted yet. If this rank cannot submit something, the round fails on all ranks.
  void open() {
    attempt([this] { adopt_new(); });
    for (auto& unit : units_) {
      if (unit.slots.front()->pending) continue;
      if (!attempt([&] { submit(unit); }))
        attempt([&] { submit(unit); });  // the reason, instead of gradients
    }
  }

  /// Returns whether `action` threw nothing. The first exception is the reason why the round fails.
  template <typename Action>
  bool attempt(const Action& action) {
    try {
      action();
      return true;
    } catch (const Error& error) {
      if (!error_) error_ = error;
    } catch (const std::exception& error) {
      if (!error_) error_ = Error(Code::internal, error.what());
    }
    note_failure(text_of("gradients could not be reduced: {}", error_->what()));
    return false;
  }

  /// Waits for what was submitted. Throws the first error, once all has ended.
  void close() {
    const std::optional<Error> first = std::exchange(error_, std::nullopt);
    owed_ = false;
    passes_ = 0;
    ++rounds_;
    std::vector<Slot*> all;
    for (auto& slot : slots_) all.push_back(&slot);
    submitted_ = 0;
    failed_with_.clear();
    try {
      settle_all(all);
    } catch (const Error& error) {
      if (error.code() == Code::rank_failed) spoil(error.status());
      if (!first) throw;
    }
    if (first) throw Error(*first);
  }

  /// Makes the round that others wait for. This rank knows that its pass has failed.
  void make_up() {
    try {
      round();
    } catch (const Error& error) {
      if (error.code() != Code::rank_failed) throw;
    }
  }

  /// Some gradients are those of this rank, others are reduced, and not the same ones on all ranks.
  void spoil(const Status& why) {
    spoiled_ = why;
    for (auto& slot : slots_) {
      slot.parameter.mutable_grad().reset();
      slot.settled = false;
    }
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
    rounds_ = 0;
    for (auto& slot : slots_) {
      slot.rounds = 0;
      slot.looked_at.clear();
      slot.unseen = false;
      const torch::Tensor& gradient = slot.parameter.grad();
      slot.version = gradient.defined() ? gradient._version() : 0;
    }
  }

  /// Nothing of what was reduced counts any more: gradients are about to be cleared.
  void forget() {
    if (!failed_with_.empty() ||
        std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.pending.has_value(); }))
      make_up();  // the other ranks wait for the rest
    owed_ = false;
    spoiled_ = {};
    passes_ = 0;
    for (auto& slot : slots_) slot.settled = slot.ready = false;
    end_step();
  }

  static constexpr int kNoTask = -1;

  Runtime& hora_;
  torch::optim::Optimizer& optimizer_;
  Parameters parameters_;
  DistributedOptions options_;
  Alive alive_ = std::make_shared<bool>(true);
  std::mutex mutex_;
  std::deque<Slot> slots_;              // hooks and units refer to them: they stay where they are
  std::deque<Unit> units_;              // slots refer to them
  unsigned rounds_ = 0;                 // since the last step or zero_grad
  int passes_ = 0;                      // since the last round
  int task_ = kNoTask;                  // autograd's number of the pass under way
  std::shared_ptr<GradientPass> pass_;  // the last one
  std::size_t submitted_ = 0;           // units, in this round
  std::string failed_with_;             // why this rank has no gradients for the next round
  std::optional<Error> error_;          // the first one of the open round
  Status spoiled_;                      // why the last round has failed on all ranks
  bool reducing_ = false;               // that pass ends with a round
  bool overlaps_ = true;                // that round, with the pass
  bool owed_ = false;                   // a pass has only accumulated, on every rank
  bool accumulating_ = false;           // under no_sync
};

}  // namespace

std::unique_ptr<Reducer> make_gradient_reducer(Runtime& hora, torch::optim::Optimizer& optimizer,
                                               Parameters parameters, const DistributedOptions& options) {
  return std::make_unique<GradientReducer>(hora, optimizer, std::move(parameters), options);
}

}  // namespace hora
