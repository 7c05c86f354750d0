// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

/// Hora for LibTorch in C++. Every function takes the Runtime first: there is no hidden one. Tensors are
/// dense, contiguous, on the CPU, of any dtype of hora/dtype.h; anything else throws Error(invalid_argument)
/// that names the tensor and the remedy, and the job goes on.
namespace hora {

/// What elements look like between the ranks. Sums are made in float32 all the same.
enum class Compression { none, fp16, bf16 };

/// How an allreduce is done. `name` must be the same on all ranks; without one, operations are matched by the
/// order in which each rank issues them.
struct AllreduceOptions {
  std::string name;
  ReduceOp op = ReduceOp::average;
  double prescale = 1.0;
  double postscale = 1.0;
  Compression compression = Compression::none;
};

/// A tensor under way.
class TensorHandle {
 public:
  TensorHandle(Handle handle, std::shared_ptr<torch::Tensor> output)
      : handle_(std::move(handle)), output_(std::move(output)) {}

  [[nodiscard]] bool poll() const { return handle_.poll(); }
  /// Blocks until the operation has ended, and returns the result. Throws Error.
  torch::Tensor wait() const;

 private:
  Handle handle_;
  std::shared_ptr<torch::Tensor> output_;
};

/// The tensor reduced over all ranks: the same on each. The input is left as it is.
torch::Tensor allreduce(Runtime& hora, const torch::Tensor& tensor, const AllreduceOptions& options = {});
/// In place.
torch::Tensor& allreduce_(Runtime& hora, torch::Tensor& tensor, const AllreduceOptions& options = {});
TensorHandle allreduce_async(Runtime& hora, const torch::Tensor& tensor,
                             const AllreduceOptions& options = {});
TensorHandle allreduce_async_(Runtime& hora, torch::Tensor& tensor, const AllreduceOptions& options = {});

/// What the rank `root` has: a new tensor, or in place.
torch::Tensor broadcast(Runtime& hora, const torch::Tensor& tensor, int root, const std::string& name = {});
torch::Tensor& broadcast_(Runtime& hora, torch::Tensor& tensor, int root, const std::string& name = {});
TensorHandle broadcast_async_(Runtime& hora, torch::Tensor& tensor, int root, const std::string& name = {});

/// The tensors of all ranks, one after the other along the first dimension, which may differ from rank to
/// rank; the other dimensions may not. Scalars are refused.
torch::Tensor allgather(Runtime& hora, const torch::Tensor& tensor, const std::string& name = {});
TensorHandle allgather_async(Runtime& hora, const torch::Tensor& tensor, const std::string& name = {});

/// Returns when every rank has called it.
void barrier(Runtime& hora);

using NamedTensors = torch::OrderedDict<std::string, torch::Tensor>;

/// Gives every rank the values of rank `root`, in place: `model->named_parameters()`,
/// `model->named_buffers()`.
void broadcast_parameters(Runtime& hora, const NamedTensors& tensors, int root = 0);
/// All parameters and buffers of a module.
void broadcast_parameters(Runtime& hora, const torch::nn::Module& module, int root = 0);

/// Gives every rank the state (momentum, step counts, ...) and the options (learning rate, ...) of rank
/// `root`'s SGD, Adam, AdamW, RMSprop or Adagrad; other optimizers throw Error(invalid_argument). Ranks need
/// not have any state yet.
void broadcast_optimizer_state(Runtime& hora, torch::optim::Optimizer& optimizer, int root = 0);

struct DistributedOptions {
  Compression compression = Compression::none;
  ReduceOp op = ReduceOp::average;  ///< average or sum
  std::string name = {};            ///< of this optimizer, the same on all ranks; default: a number, by order
};

/// Any optimizer, with gradients that are reduced over all ranks.
///
/// Each gradient's reduction starts as soon as backward() has made it, while backward() goes on; before it
/// returns, all are done. Gradients live side by side in memory that the ranks of a host share, and are
/// reduced where they lie.
///
///  - When backward() returns, gradients are the reduced ones: clip them, look at them.
///  - Accumulation: under `no_sync()`, backward() only adds up; the backward() after it reduces the whole.
///    Without it, each backward() before a step reduces what it has added.
///  - A parameter that this rank did not use counts as zeros; one that no rank used keeps an undefined
///  gradient.
///  - Parameters that are unfrozen or added to the optimizer later are taken in; on all ranks alike.
///  - Sparse gradients are refused.
///
/// Owns the optimizer, refers to the Runtime while that lives, and takes its hooks back when it is destroyed.
/// A parameter may be in one DistributedOptimizer at a time. One thread at a time, apart from backward(),
/// whose threads call in.
class DistributedOptimizer {
 public:
  /// Throws Error(invalid_argument) if a parameter of the optimizer that requires a gradient has no name, two
  /// share one, or it is in another DistributedOptimizer.
  DistributedOptimizer(Runtime& hora, std::unique_ptr<torch::optim::Optimizer> optimizer,
                       const NamedTensors& parameters, DistributedOptions options = {});
  template <typename Optimizer>
  requires std::is_base_of_v<torch::optim::Optimizer, Optimizer> DistributedOptimizer(
      Runtime& hora, Optimizer optimizer, const NamedTensors& parameters, DistributedOptions options = {})
      : DistributedOptimizer(hora, std::make_unique<Optimizer>(std::move(optimizer)), parameters,
                             std::move(options)) {}
  ~DistributedOptimizer();
  DistributedOptimizer(DistributedOptimizer&&) noexcept;
  DistributedOptimizer& operator=(DistributedOptimizer&&) noexcept;

  /// Makes every gradient the reduced one, if backward() has not done so already. Idempotent. Throws Error
  /// that names the parameter; so does backward() itself.
  void synchronize();
  /// `synchronize()`, then the optimizer's step. With a closure: each time after it gradients are reduced,
  /// and so is the loss that it returns, so that all ranks take the same decisions (LBFGS searches along a
  /// line).
  torch::Tensor step(const std::function<torch::Tensor()>& closure = {});
  void zero_grad(bool set_to_none = true);

  /// While it lives, backward() accumulates gradients on this rank only.
  class [[nodiscard]] NoSync {
   public:
    explicit NoSync(DistributedOptimizer& optimizer);
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DistributedOptimizer& optimizer_;
  };
  NoSync no_sync() { return NoSync(*this); }

  /// The optimizer itself: learning rates, state, saving and loading.
  [[nodiscard]] torch::optim::Optimizer& optimizer();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace hora
