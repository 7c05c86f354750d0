// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "frameworks/torch/elastic/buffers.h"
#include "frameworks/torch/elastic/handover.h"
#include "frameworks/torch/elastic/step.h"

#include <hora/alike.h>
#include <hora/torch/elastic.h>

#include <memory>
#include <optional>
#include <vector>

namespace hora::elastic {

/// The part of a training that changes the model. It keeps the optimizer's step until the ranks have voted,
/// so a step that does not count leaves nothing behind. Refers to Runtime and model.
///
/// With the gradients the ranks compare for which step they are, and tell whether other buffers have changed
/// than those that they send: one allreduce of three numbers.
class Maker {
 public:
  /// Throws Error(invalid_argument).
  Maker(Runtime& hora, torch::nn::Module& model, std::unique_ptr<torch::optim::Optimizer> optimizer,
        const TrainingOptions& options);

  // A step.

  void begin_step() { buffers_.begin_step(); }
  /// Adds the gradients of the program's microbatch, unless it is another rank's. Reduces them if it is the
  /// last one. Throws Error.
  void backward(const Step& step, std::int64_t epoch, const torch::Tensor& loss);
  /// Waits for what has to be there before the ranks vote. Throws Error.
  void complete();
  /// Makes the step, which counts.
  void make();
  /// Undoes what the step has changed, which does not count.
  void take_back();

  // The state of the training.

  [[nodiscard]] torch::optim::Optimizer& optimizer() { return optimizer_.optimizer(); }
  /// Names with texts that are the same on two processes only if one can take the state of the other.
  [[nodiscard]] std::vector<Item> description();
  /// Gives the state of rank `root` to the ranks that need it. All ranks call it. `apart`: see Handover.
  std::vector<Unit> give(int root, bool needs, bool apart);
  void save(torch::serialize::OutputArchive& archive);
  /// Throws Error(invalid_argument) if it is the state of another model.
  void load(torch::serialize::InputArchive& archive);
  /// Returns when the GPU has done all that it was given. Throws Error if the job has failed by then: the
  /// work may have used what was aborted.
  void await_gpu();
  /// The job goes on with other ranks.
  void begin_generation();

 private:
  /// Parameters and buffers, by name.
  [[nodiscard]] NamedTensors tensors() const;
  void start(const Step& step, std::int64_t epoch);
  /// Lets the scheduler make steps until it has made so many: a new one, if it has made more.
  void schedule(std::int64_t steps);

  Runtime& hora_;
  torch::nn::Module& model_;
  const TrainingOptions options_;
  DistributedOptimizer optimizer_;
  std::unique_ptr<torch::optim::LRScheduler> scheduler_;
  std::int64_t scheduled_ = 0;  // steps of the scheduler
  Buffers buffers_;
  std::optional<TensorHandle> compared_;  // the allreduce of the step under way
};

}  // namespace hora::elastic
