// SPDX-License-Identifier: Apache-2.0
#include "frameworks/samples/permutation.h"
#include "frameworks/torch/elastic/audit.h"
#include "frameworks/torch/elastic/maker.h"
#include "frameworks/torch/elastic/members.h"
#include "frameworks/torch/text.h"

#include <hora/torch/elastic.h>

#include <algorithm>
#include <array>
#include <numeric>

namespace hora::elastic {
namespace {

constexpr const char* kCalls = "each microbatch needs training.backward(loss), and then training.step()";

[[noreturn]] void refuse(const std::string& why) { throw Error(Code::invalid_argument, why); }

TrainingOptions checked(TrainingOptions options, std::size_t samples) {
  if (options.batch < 1) refuse(text_of("batch must be 1 or more, not {}", options.batch));
  if (options.microbatch < 1 || options.microbatch > options.batch) {
    refuse(text_of("microbatch must be 1 or more, and at most batch ({}), not {}", options.batch,
                   options.microbatch));
  }
  if (!(options.clip_norm >= 0)) refuse(text_of("clip_norm must be 0 or more, not {}", options.clip_norm));
  if (options.drop_last && static_cast<std::size_t>(options.batch) > samples) {
    refuse(text_of("an epoch has no step: data has {} samples, fewer than batch ({}), and drop_last is set",
                   samples, options.batch));
  }
  const DistributedOptions& gradients = options.gradients;
  if (gradients.op != ReduceOp::average && gradients.op != ReduceOp::sum)
    refuse(text_of("gradients.op must be average or sum, not {}", name(gradients.op)));
  if (gradients.process_set != 0) refuse("gradients.process_set must be 0: all ranks reduce them");
  if (gradients.backward_passes_per_step != 1) {
    refuse(
        "gradients.backward_passes_per_step must be 1: batch and microbatch say how many passes a step has");
  }
  return options;
}

std::size_t checked_size(std::optional<std::size_t> samples) {
  if (!samples) refuse("data does not know its size: give a data set whose size() is a number");
  if (*samples == 0) refuse("data has no samples");
  return *samples;
}

std::unique_ptr<torch::optim::Optimizer> checked(std::unique_ptr<torch::optim::Optimizer> optimizer) {
  if (dynamic_cast<torch::optim::LBFGS*>(optimizer.get()) != nullptr) {
    refuse(
        "LBFGS changes the model several times in a step, which cannot be taken back: use another "
        "optimizer");
  }
  return optimizer;
}

torch::nn::Module& checked(torch::nn::Module& model) {
  const auto check = [](const std::string& name, const torch::nn::Module& module) {
    if (dynamic_cast<const SyncBatchNormImpl*>(&module) == nullptr) return;
    refuse(text_of(
        "{} is a SyncBatchNorm, which communicates in the forward pass: use a BatchNorm of torch::nn", name));
  };
  check("the model", model);
  for (const auto& item : model.named_modules("", /*include_self=*/false))
    check("'" + item.key() + "'", *item.value());
  return model;
}

}  // namespace

struct TrainingLoop::Parts {
  Parts(Runtime& runtime, torch::nn::Module& model, std::unique_ptr<torch::optim::Optimizer> optimizer,
        std::optional<std::size_t> samples, TrainingOptions given)
      : hora(runtime),
        size(checked_size(samples)),
        options(checked(std::move(given), size)),
        audit(options.audit.empty() ? nullptr : std::make_unique<Audit>(options.audit)),
        maker(hora, checked(model), checked(std::move(optimizer)), options),
        members(hora, {.description = [this] { return description(); },
                       .give = [this](int root, bool needs, bool apart) { return give(root, needs, apart); },
                       .await = [this] { maker.await_gpu(); },
                       .begin_generation = [this] { maker.begin_generation(); }}) {}

  Runtime& hora;
  const std::size_t size;
  const TrainingOptions options;
  const std::unique_ptr<Audit> audit;  // null: none
  Progress progress;
  bool in_epoch = false;  // whether the program is
  std::optional<Step> step;
  std::uint64_t seed = 0;  // of the microbatch that was given last
  Maker maker;
  Members members;

  // --- the samples ---

  /// The samples of the step that begins at a place; nothing: the epoch is over.
  [[nodiscard]] std::optional<Piece> step_from(std::int64_t place) const {
    const Piece whole{place, std::min(place + options.batch, static_cast<std::int64_t>(size))};
    if (whole.size() <= 0 || (options.drop_last && whole.size() < options.batch)) return std::nullopt;
    return whole;
  }

  [[nodiscard]] std::vector<std::size_t> numbers_of(const Piece& piece) const {
    if (options.shuffle) {
      const auto number = static_cast<std::uint64_t>(progress.epoch);
      return samples::Permutation(size, options.seed, number).numbers(piece);
    }
    std::vector<std::size_t> numbers(static_cast<std::size_t>(piece.size()));
    std::iota(numbers.begin(), numbers.end(), static_cast<std::size_t>(piece.first));
    return numbers;
  }

  void seed_at(std::int64_t place) {
    seed = samples::mixed_seed(std::array{options.seed, static_cast<std::uint64_t>(progress.epoch),
                                          static_cast<std::uint64_t>(place)});
    torch::manual_seed(seed);
  }

  // --- the state ---

  [[nodiscard]] std::vector<Item> description() {
    std::vector<Item> items = maker.description();
    items.push_back({"batch", std::to_string(options.batch)});
    items.push_back({"microbatch", std::to_string(options.microbatch)});
    items.push_back({"seed", std::to_string(options.seed)});
    items.push_back({"data", text_of("{} samples{}{}", size, options.shuffle ? ", shuffled" : "",
                                     options.drop_last ? ", without a last step of fewer" : "")});
    return items;
  }

  std::vector<Unit> give(int root, bool needs, bool apart) {
    torch::Tensor numbers = as_tensor();
    broadcast_(hora, numbers, root, {.name = "elastic.training.progress"});
    take(numbers);
    return maker.give(root, needs, apart);
  }

  [[nodiscard]] torch::Tensor as_tensor() const {
    return torch::tensor({progress.epoch, progress.place, progress.steps});
  }
  void take(const torch::Tensor& numbers) {
    const auto number = [&](int place) { return numbers[place].item<std::int64_t>(); };
    progress = {number(0), number(1), number(2)};
  }

  // --- the parts of a step ---

  void end_epoch() {
    ++progress.epoch;
    progress.place = 0;
    in_epoch = false;
  }

  /// Takes back a step that the program has left before its end.
  void leave_step() {
    if (step && !step->has_ended) {
      step->is_void = step->is_void || hora.generation_has_ended();
      if (step->is_void) finish();
      if (!step->has_ended) maker.take_back();
    }
    step.reset();
  }

  /// The samples of the next step of the epoch, which the ranks share that are there then; nothing: there is
  /// none, and nobody joins or leaves.
  std::optional<Piece> next_step() {
    if (step_from(progress.place)) members.begin_step();
    return step_from(progress.place);
  }

  void begin(const Piece& whole) {
    maker.begin_step();
    std::vector<Piece> share;
    if (const auto own = members.share())
      share = samples::microbatches(whole, options.microbatch, own->number, own->ranks);
    auto pieces = share;
    if (pieces.empty()) pieces = {samples::microbatches(whole, options.microbatch, 0, 1).front()};
    step.emplace(Step{
        .whole = whole, .share = std::move(share), .pieces = std::move(pieces), .made_by = members.who()});
  }

  /// The next piece of the step, for the program; nothing: the step does not count any more.
  std::optional<Piece> next_piece() {
    within_step([this] { members.await_state(); });
    step->is_void = step->is_void || hora.generation_has_ended();
    if (step->is_void) {
      finish();
      return std::nullopt;
    }
    return step->pieces[step->taken++];
  }

  /// The step whose microbatch the program has.
  Step& of_the_program(const char* called) {
    if (!step || step->has_ended || step->taken == step->done)
      refuse(text_of("{}() is called once for each microbatch of training.next()", called));
    return *step;
  }

  /// Does something in the step, which is void if the job goes on with other ranks after an error.
  template <typename Function>
  void within_step(const Function& function) {
    try {
      function();
    } catch (const Error& error) {
      if (!is_of_a_change(hora, error)) throw;
      step->is_void = true;
    }
  }

  /// Ends the step: it counts, or is taken back. Returns whether it counts.
  bool finish() {
    if (!step->is_void) {
      within_step([this] {
        maker.complete();
        members.confirm();
      });
    }
    step->has_ended = true;
    return members.end_step(step->is_void, [this] { make(); }, [this] { maker.take_back(); });
  }

  void make() {
    seed_at(step->whole.last);  // the same on all ranks, also for the optimizer
    maker.make();
    progress.place = step->whole.last;
    ++progress.steps;
    if (audit) audit->write(*step, progress.epoch, progress.steps);
  }
};

TrainingLoop::TrainingLoop(Runtime& hora, torch::nn::Module& model,
                           std::unique_ptr<torch::optim::Optimizer> optimizer,
                           std::optional<std::size_t> samples, TrainingOptions options) {
  hora.leave_on_sigterm();
  parts_ = std::make_unique<Parts>(hora, model, std::move(optimizer), samples, std::move(options));
}

TrainingLoop::~TrainingLoop() = default;

bool TrainingLoop::begin_epoch(std::int64_t epochs) {
  parts_->leave_step();
  if (parts_->in_epoch) {
    parts_->members.end_steps();
    parts_->end_epoch();
  }
  parts_->members.join();
  parts_->in_epoch = parts_->progress.epoch < epochs;
  return parts_->in_epoch;
}

std::optional<std::vector<std::size_t>> TrainingLoop::next_samples() {
  Parts& parts = *parts_;
  if (!parts.in_epoch) refuse("next() is called within an epoch: call training.begin_epoch() first");
  std::optional<Piece> piece;
  if (parts.step && !parts.step->has_ended) {
    if (parts.step->done != parts.step->taken) refuse(kCalls);
    piece = parts.next_piece();
  }
  while (!piece) {
    const auto whole = parts.next_step();
    if (!whole) {
      parts.members.end_steps();
      parts.end_epoch();
      return std::nullopt;
    }
    parts.begin(*whole);
    piece = parts.next_piece();
  }
  parts.seed_at(piece->first);
  return parts.numbers_of(*piece);
}

void TrainingLoop::seed_again() const { torch::manual_seed(parts_->seed); }

void TrainingLoop::backward(const torch::Tensor& loss) {
  Step& step = parts_->of_the_program("backward");
  if (step.passed == step.taken)
    refuse(text_of("backward() was called twice for one microbatch: {}", kCalls));
  step.passed = step.taken;
  if (!step.is_void) parts_->within_step([&] { parts_->maker.backward(step, parts_->progress.epoch, loss); });
}

bool TrainingLoop::step() {
  Step& step = parts_->of_the_program("step");
  if (step.passed != step.taken) refuse(kCalls);
  step.done = step.taken;
  return (step.has_last() || step.is_void) && parts_->finish();
}

void TrainingLoop::call_until_it_counts(const std::function<void()>& function) {
  if (parts_->step && !parts_->step->has_ended) {
    refuse(
        "retry() was called within a step: call it where training.step() has returned true, or after the "
        "epoch");
  }
  parts_->members.retry(function);
}

const Progress& TrainingLoop::progress() const { return parts_->progress; }
torch::optim::Optimizer& TrainingLoop::optimizer() { return parts_->maker.optimizer(); }

void TrainingLoop::save(torch::serialize::OutputArchive& archive) {
  parts_->maker.save(archive);
  archive.write("progress", parts_->as_tensor());
}

void TrainingLoop::load(torch::serialize::InputArchive& archive) {
  parts_->leave_step();
  parts_->maker.load(archive);
  torch::Tensor numbers;
  archive.read("progress", numbers);
  parts_->take(numbers);
  parts_->in_epoch = false;
  parts_->members.give_to_all();
}

}  // namespace hora::elastic
