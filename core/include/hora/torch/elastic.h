// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/torch.h>

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

/// Training in C++ that goes on when ranks are lost (`hrun --min-np`).
namespace hora::elastic {

/// How far a training has come. A value.
struct Progress {
  std::int64_t epoch = 0;
  std::int64_t place = 0;  ///< how many samples of the epoch are done
  std::int64_t steps = 0;  ///< how many steps count

  bool operator==(const Progress&) const = default;
};

/// `batch` and `microbatch` have no default. All ranks give the same.
struct TrainingOptions {
  /// The number of samples in a step, on all ranks together. The last step of an epoch may have fewer.
  std::int64_t batch = 0;
  /// How many samples go through the model at once. With more ranks than microbatches some ranks have nothing
  /// to do.
  std::int64_t microbatch = 0;
  bool shuffle = true;     ///< whether each epoch takes the samples in another random order
  std::uint64_t seed = 0;  ///< of that order, and of LibTorch's random numbers
  bool drop_last = false;  ///< whether a last step of fewer samples is left out
  double clip_norm = 0;    ///< the most that the norm of all gradients may be; 0: it may be any
  /// Makes the scheduler, which makes a step after each step that counts; none: there is none. One that
  /// counts epochs is called by the program, at the end of an epoch.
  std::function<std::unique_ptr<torch::optim::LRScheduler>(torch::optim::Optimizer&)> scheduler = {};
  /// A folder, into which each process writes a line of JSON for each step that counts. A line has the number
  /// of the `step`, its `epoch`, the places of its samples (`first`, and `last`: one more than the last), the
  /// `pieces` of these that this rank has trained on, and the `generation`, `rank` and `ranks`. Empty: none.
  std::string audit = {};
  DistributedOptions gradients = {};  ///< how they are reduced: op average or sum, over all ranks
};

/// The part of a Training that does not depend on the data set.
class TrainingLoop {
 public:
  virtual ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;
  TrainingLoop& operator=(const TrainingLoop&) = delete;

  /// Begins the next epoch: false if `epochs` of them are done. After `load`, and in a process that joins, it
  /// goes on in the middle of one. An epoch ends when `next` has returned nothing, or with the next call of
  /// `begin_epoch`. All ranks call it alike. Throws as Runtime::next_generation.
  [[nodiscard]] bool begin_epoch(std::int64_t epochs);

  /// `loss.backward()`, with the weight that the microbatch has in its step. It reduces gradients if the
  /// microbatch is this rank's last one in the step. If the step does not count any more, it does nothing.
  ///
  /// Args: `loss`: a scalar, the mean over the samples of the microbatch.
  /// Throws Error(invalid_argument) if it is called twice for one microbatch, or without one.
  void backward(const torch::Tensor& loss);

  /// Ends the microbatch. After this rank's last one in a step it waits until all ranks have voted, and makes
  /// the optimizer's step if the step counts. Returns whether a step was made, on all ranks alike.
  ///
  /// Throws Error(invalid_argument) if `backward` was not called, or the ranks make different steps; and as
  /// Runtime::next_generation.
  bool step();

  /// Calls a function that communicates, between two steps, such as an evaluation. It calls the function
  /// again until a call has ended on all ranks without a loss of ranks. Returns the result. All ranks call it
  /// alike, where `step` has returned true, or after the epoch.
  template <typename Function>
  auto retry(const Function& function) {
    using Value = std::invoke_result_t<const Function&>;
    if constexpr (std::is_void_v<Value>) {
      call_until_it_counts(function);
    } else {
      std::optional<Value> value;
      call_until_it_counts([&] { value.emplace(function()); });
      return *std::move(value);
    }
  }

  [[nodiscard]] const Progress& progress() const;
  /// The optimizer: learning rates, state.
  [[nodiscard]] torch::optim::Optimizer& optimizer();

  /// Writes model, optimizer and progress. That of rank 0 is to be saved, between two steps.
  ///
  ///     torch::serialize::OutputArchive archive;
  ///     training.save(archive);
  ///     archive.save_to("checkpoint.pt");
  void save(torch::serialize::OutputArchive& archive);
  /// Goes on from what `save` has written, on any device. All ranks call it; what rank 0 has loaded counts.
  /// Throws Error(invalid_argument) if that is of another model.
  void load(torch::serialize::InputArchive& archive);

 protected:
  TrainingLoop(Runtime& hora, torch::nn::Module& model, std::unique_ptr<torch::optim::Optimizer> optimizer,
               std::optional<std::size_t> samples, TrainingOptions options);

  /// The samples of the next microbatch, by their numbers in the data set. Nothing: the epoch is over. Seeds
  /// LibTorch's random numbers. Throws: see Training::next.
  [[nodiscard]] std::optional<std::vector<std::size_t>> next_samples();
  /// Seeds LibTorch's random numbers as `next_samples` did.
  void seed_again() const;

 private:
  void call_until_it_counts(const std::function<void()>& function);

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Training that goes on when ranks are lost:
///
///     auto hora = hora::init();
///     Net model;
///     hora::elastic::Training training(hora, *model, torch::optim::SGD(model->parameters(), 0.1), data,
///                                      {.batch = 256, .microbatch = 32});
///     while (training.begin_epoch(10)) {
///       while (const auto batch = training.next()) {
///         training.backward(torch::nll_loss(model->forward(batch->data), batch->target));
///         training.step();
///       }
///     }
///
/// A step takes `batch` samples of the epoch, cuts them into microbatches, and shares these among the ranks.
/// It counts on all ranks or on none. If a rank is lost, the step under way is made again by the others
/// (`hrun --min-np`); no exception comes out of the loop. Each sample is taken exactly once in an epoch, and
/// the result does not depend on the number of ranks, but for rounding.
///
///  - Gradients are the mean over the samples of the step. The loss must be a mean over its microbatch.
///  - The optimizer makes its step when all ranks have voted that they hold the reduced gradients.
///  - Buffers of the model, such as running statistics of batch normalisation, change by the mean of what the
///    microbatches of a step change in them.
///  - LibTorch's random numbers (dropout) of a microbatch depend on `seed`, epoch and place alone.
///  - All ranks run the program alike. A rank for which a step has no microbatch gets another's, which does
///    not count. Leave the loop, save checkpoints, and call `retry` where `step` has returned true, or after
///    the epoch. Other calls that communicate need `retry`.
///  - SIGTERM makes a process leave the job before the next step (Runtime::leave_on_sigterm): it then calls
///    std::exit(0). A process that `hrun resize` or `hrun drain` lets go leaves likewise.
///  - Buffers are registered by constructors, with the shapes that they keep: else no process can join.
///  - Of several Training objects one trains after the other.
///
/// Without `hrun --min-np`, or on one process, the same program trains in the same way.
///
/// A data set has `size()`, and `get_batch` of a list of samples' numbers, as the data sets of torch::data
/// have that know their size. All ranks have the same one. It is called on the thread that calls `next`.
///
/// Refers to the Runtime and to the model; owns optimizer and data set. One thread at a time.
template <typename DataSet>
class Training final : public TrainingLoop {
 public:
  using Batch = decltype(std::declval<DataSet&>().get_batch(std::declval<const std::vector<std::size_t>&>()));

  /// Args: `model`: a module, or what a holder such as torch::nn::Linear holds, on the device where it is
  /// trained; all its ranks get the parameters of rank 0. `optimizer`: any of torch::optim's but LBFGS, of
  /// all the model's parameters.
  ///
  /// Throws Error(invalid_argument): an argument makes no sense; the text names it. Error(mismatch): models,
  /// optimizers, data or options of the ranks differ.
  template <typename Optimizer>
  Training(Runtime& hora, torch::nn::Module& model, Optimizer optimizer, DataSet data,
           TrainingOptions options)
      : TrainingLoop(hora, model, std::make_unique<Optimizer>(std::move(optimizer)), data.size(),
                     std::move(options)),
        data_(std::move(data)) {}

  /// The next microbatch of this rank in the epoch, as the data set makes it; nothing: the epoch is over. One
  /// comes again if its step does not count.
  ///
  /// Throws Error(invalid_argument) if the program has not called `backward` and `step` for the microbatch
  /// before; and as Runtime::next_generation.
  [[nodiscard]] std::optional<Batch> next() {
    const auto samples = next_samples();
    if (!samples) return std::nullopt;
    Batch batch = data_.get_batch(*samples);
    seed_again();
    return batch;
  }

 private:
  DataSet data_;
};

}  // namespace hora::elastic
