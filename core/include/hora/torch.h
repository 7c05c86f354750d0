// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

/// Hora for LibTorch in C++. Every function takes the Runtime first: there is no hidden one.
///
///     auto hora = hora::init();
///     torch::nn::Linear model(4, 1);
///     hora::broadcast_parameters(hora, model);
///     const auto total = hora::allreduce(hora, torch::ones({3}), hora::ReduceOp::sum);
///     const int pair = hora.add_process_set({0, 2});  // all ranks call it; -> Runtime::add_process_set
///     if (hora.rank() != 1) hora::allreduce(hora, total, {.name = "of two", .process_set = pair});
///
/// Operations that change a tensor take a temporary, too: `allreduce_(hora, p.data())`. As in LibTorch, a
/// tensor refers to its elements.
///
/// Tensors are dense, on the CPU or on this rank's GPU, of any dtype of hora/dtype.h and any shape, also of 0
/// rows; they need not be contiguous (then they are copied). Anything else throws Error(invalid_argument)
/// that names the tensor and the remedy, and so does a process set that does not exist or does not have this
/// rank; what only all ranks together can see (shapes that differ) throws Error(mismatch) on all of them, in
/// `wait`. The job goes on after both.
///
/// On a GPU an operation begins when LibTorch's current stream has come so far, and waiting for it makes the
/// stream that is current then wait, not the host; results belong to the first of the two. A rank has one
/// GPU, which is cuda:<local rank> only by default: the one of its first tensor there. Tensors on the CPU and
/// on the GPU go side by side.
///
/// `allreduce`, `allgather`, `broadcast`, `alltoall`, `reducescatter` and their groups are differentiable;
/// functions whose names end in `_async` or `_` are not. backward() is then an operation of all ranks of the
/// set, too, and refers to the Runtime. Gradients are those of Horovod, which means that those of allgather
/// and broadcast are averaged over the ranks, not summed.
namespace hora {

/// The form of elements on their way between ranks. Sums are made in float32 all the same. mxfp8_e4m3 and
/// mxfp8_e5m2 are floats of 8 bits with a scale for each 32 of them (Entry::wire): for a sum or an average of
/// floats. Anything else that has them throws Error(invalid_argument). The values of sparse
/// tensors then travel as bfloat16.
enum class Compression { none, fp16, bf16, mxfp8_e4m3, mxfp8_e5m2 };

/// The name of the tensor, and the ranks that take part.
struct OperationOptions {
  /// The same on all ranks; without one, operations are matched by the order in which each rank issues them.
  std::string name = {};
  int process_set = 0;  ///< as Runtime::add_process_set returned it; 0: all ranks
};

/// How allreduce and reducescatter are done: postscale * op(prescale * tensor of every rank).
struct ReduceOptions {
  std::string name = {};            ///< as in OperationOptions
  ReduceOp op = ReduceOp::average;  ///< of integers: exact, then truncated toward zero (1 and 2 give 1)
  double prescale = 1.0;
  double postscale = 1.0;
  Compression compression = Compression::none;
  int process_set = 0;  ///< as in OperationOptions
};

/// Waits until all have ended, and returns how. Throws the first Error among them, once all have ended. With
/// a GPU, for operations on it: until they have been given to it; LibTorch's current stream there waits for
/// the rest.
std::vector<Result> wait_for_all(const std::vector<Handle>& operations, Device device = {});

/// Operations under way that were issued together, and what will come of them. Copies refer to the same ones.
/// Thread-safe.
template <typename T>
class Pending {
 public:
  /// `finish` makes the result, once, when all have ended well. `device`: the GPU that any of them is on.
  Pending(std::vector<Handle> operations, std::function<T(const std::vector<Result>&)> finish,
          Device device = {})
      : state_(std::make_shared<State>()) {
    state_->operations = std::move(operations);
    state_->finish = std::move(finish);
    state_->device = device;
  }

  /// Whether all have ended, on the GPU, too: `wait` would return at once.
  [[nodiscard]] bool poll() const {
    for (const auto& operation : state_->operations) {
      if (!operation.poll()) return false;
    }
    return true;
  }
  /// Blocks until all have ended, and returns the result. Throws Error. On a GPU: see `wait_for_all`.
  T wait() const {
    const auto results = wait_for_all(state_->operations, state_->device);
    const std::lock_guard lock(state_->mutex);
    if (!state_->result) {
      state_->result = state_->finish(results);
      state_->finish = nullptr;  // with the tensors that it holds
    }
    return *state_->result;
  }
  /// The same operations; `change` makes another result of theirs.
  template <typename Change>
  [[nodiscard]] auto then(Change change) const {
    using Other = std::invoke_result_t<Change, T>;
    return Pending<Other>(
        state_->operations,
        [before = *this, change](const std::vector<Result>& /*all*/) { return change(before.wait()); },
        state_->device);
  }

 private:
  struct State {
    std::vector<Handle> operations;
    Device device;
    std::mutex mutex;
    std::function<T(const std::vector<Result>&)> finish;
    std::optional<T> result;
  };
  std::shared_ptr<State> state_;
};

using TensorHandle = Pending<torch::Tensor>;
using TensorsHandle = Pending<std::vector<torch::Tensor>>;

/// The tensor reduced over all ranks: the same on each, and of the same shape. The input is left as it is.
///
/// Its gradient is the gradients of all ranks, reduced in the same way; with min, max and product that of the
/// sum of what all ranks make of the result (ranks with equal extremes share it). The name of that reduction
/// is `name` + ".gradient". The logical reductions have no gradient.
///
///     x = allreduce(hora, x);                                   // the average
///     x = allreduce(hora, x, ReduceOp::sum);
///     x = allreduce(hora, x, {.name = "x", .op = ReduceOp::max});
///     allreduce_(hora, p.grad());
///     const auto under_way = allreduce_async(hora, x);          // x = under_way.wait();
///     const double loss = allreduce(hora, 0.25);                // a number
///
/// Sparse COO tensors are reduced, without a gradient, by gathering the indices and values of all ranks; the
/// shape is the same on all, the number of values need not be. Only average and sum; the result is coalesced.
torch::Tensor allreduce(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options = {});
/// In place. Throws Error(invalid_argument) for a tensor of which several elements are one, such as an
/// expanded one.
torch::Tensor allreduce_(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options = {});
TensorHandle allreduce_async(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options = {});
/// A tensor that is not contiguous has its new values when `wait` has returned.
TensorHandle allreduce_async_(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options = {});

/// The same where only the op is not as ReduceOptions have it; also of numbers.
template <typename Value>
auto allreduce(Runtime& hora, const Value& value, ReduceOp op) {
  return allreduce(hora, value, ReduceOptions{.op = op});
}
inline torch::Tensor allreduce_(Runtime& hora, const torch::Tensor& tensor, ReduceOp op) {
  return allreduce_(hora, tensor, ReduceOptions{.op = op});
}
inline TensorHandle allreduce_async(Runtime& hora, const torch::Tensor& tensor, ReduceOp op) {
  return allreduce_async(hora, tensor, ReduceOptions{.op = op});
}
inline TensorHandle allreduce_async_(Runtime& hora, const torch::Tensor& tensor, ReduceOp op) {
  return allreduce_async_(hora, tensor, ReduceOptions{.op = op});
}

/// A number that is reduced in float64 or int64, and returned in its own type.
template <typename Number>
concept Reducible = std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>;
template <Reducible Number>
Number allreduce(Runtime& hora, Number value, const ReduceOptions& options = {}) {
  using Wide = std::conditional_t<std::is_integral_v<Number>, std::int64_t, double>;
  const auto dtype = torch::CppTypeToScalarType<Wide>::value;
  const torch::Tensor whole = torch::full({}, static_cast<Wide>(value), dtype);
  return static_cast<Number>(allreduce(hora, whole, options).template item<Wide>());
}

/// Several tensors (one at least) of any dtypes and shapes, which are all reduced, or none is.
///
///     const auto sums = grouped_allreduce(hora, {x, y}, {.op = ReduceOp::sum});
///     grouped_allreduce_(hora, {x, y});
std::vector<torch::Tensor> grouped_allreduce(Runtime& hora, torch::TensorList tensors,
                                             const ReduceOptions& options = {});
void grouped_allreduce_(Runtime& hora, torch::TensorList tensors, const ReduceOptions& options = {});
TensorsHandle grouped_allreduce_async(Runtime& hora, torch::TensorList tensors,
                                      const ReduceOptions& options = {});
TensorsHandle grouped_allreduce_async_(Runtime& hora, torch::TensorList tensors,
                                       const ReduceOptions& options = {});

/// The tensor of the rank `root`: a new tensor, or in place. `root` counts in the whole job, also in process
/// sets. Shape and dtype are the same on all ranks. The root's gradient is the average of all ranks'
/// gradients, the others' is zeros.
///
///     x = broadcast(hora, x, 0);
///     broadcast_(hora, p.data(), 0);
torch::Tensor broadcast(Runtime& hora, const torch::Tensor& tensor, int root,
                        const OperationOptions& options = {});
torch::Tensor broadcast_(Runtime& hora, const torch::Tensor& tensor, int root,
                         const OperationOptions& options = {});
TensorHandle broadcast_async(Runtime& hora, const torch::Tensor& tensor, int root,
                             const OperationOptions& options = {});
TensorHandle broadcast_async_(Runtime& hora, const torch::Tensor& tensor, int root,
                              const OperationOptions& options = {});

/// The tensors of all ranks, one after the other along the first dimension, which may differ from rank to
/// rank; the other dimensions may not. Scalars are refused. Each rank's gradient is its rows of the average
/// of all ranks' gradients.
///
///     const auto rows = allgather(hora, torch::full({hora.rank(), 5}, 1.0));
torch::Tensor allgather(Runtime& hora, const torch::Tensor& tensor, const OperationOptions& options = {});
TensorHandle allgather_async(Runtime& hora, const torch::Tensor& tensor,
                             const OperationOptions& options = {});
/// Several tensors (one at least), which are all gathered, or none is.
///
///     const auto both = grouped_allgather(hora, {x, y});
std::vector<torch::Tensor> grouped_allgather(Runtime& hora, torch::TensorList tensors,
                                             const OperationOptions& options = {});
TensorsHandle grouped_allgather_async(Runtime& hora, torch::TensorList tensors,
                                      const OperationOptions& options = {});

struct Alltoall {
  torch::Tensor output;                       ///< the received rows, in the order of the ranks that sent them
  std::vector<std::int64_t> received_splits;  ///< how many rows came from each rank of the process set
};

/// Sends rows to each rank of the process set, and receives rows from each. `splits` says how many go to
/// each, in the order of the ranks; rows beyond their sum are not sent; empty: equal parts. The first
/// dimension may differ from rank to rank, the other dimensions may not. Gradients travel back to where the
/// rows came from; rows that were not sent get zeros. Throws Error(invalid_argument) for a scalar, for splits
/// that are not as many as ranks, negative or more than there are rows, and for rows that cannot be divided
/// evenly.
///
///     const auto [rows, from] = alltoall(hora, torch::ones({3, 5}), {1, 2});  // on two ranks
Alltoall alltoall(Runtime& hora, const torch::Tensor& tensor, const std::vector<std::int64_t>& splits = {},
                  const OperationOptions& options = {});
Pending<Alltoall> alltoall_async(Runtime& hora, const torch::Tensor& tensor,
                                 const std::vector<std::int64_t>& splits = {},
                                 const OperationOptions& options = {});

/// This rank's rows of the tensor reduced over all ranks, not by adasum: `scattered_rows` says how many each
/// has; few rows leave none for the last ranks. The shape is the same on all ranks; scalars are refused.
/// The gradient is the gradients of all ranks, one after the other, times prescale and postscale; with sum
/// also times the number of ranks. Other reductions have none.
///
///     const auto own_rows = reducescatter(hora, x, {.op = ReduceOp::sum});
torch::Tensor reducescatter(Runtime& hora, const torch::Tensor& tensor, const ReduceOptions& options = {});
TensorHandle reducescatter_async(Runtime& hora, const torch::Tensor& tensor,
                                 const ReduceOptions& options = {});
/// Several tensors (one at least), which are all reduced, or none is.
///
///     const auto parts = grouped_reducescatter(hora, {x, y});
std::vector<torch::Tensor> grouped_reducescatter(Runtime& hora, torch::TensorList tensors,
                                                 const ReduceOptions& options = {});
TensorsHandle grouped_reducescatter_async(Runtime& hora, torch::TensorList tensors,
                                          const ReduceOptions& options = {});

/// The tensors of all ranks, one after the other along the first dimension, which may differ from rank to
/// rank, on rank `root` (its number in the job); an undefined tensor on the others. The other dimensions and
/// the dtype are the same on all ranks; scalars are refused. No gradient. As MPI_Gatherv.
///
///     const auto all = gather(hora, x, 0);  // all.defined() on rank 0 only
torch::Tensor gather(Runtime& hora, const torch::Tensor& tensor, int root,
                     const OperationOptions& options = {});
TensorHandle gather_async(Runtime& hora, const torch::Tensor& tensor, int root,
                          const OperationOptions& options = {});

/// This rank's rows of the tensor that rank `root` passes. Of what the others pass only the dtype and all
/// dimensions but the first count, which must be the root's: `torch::empty({0, 5})` will do. `splits`, of the
/// root: how many rows go to each rank of the process set; empty: as `scattered_rows` says. No gradient. As
/// MPI_Scatterv.
///
///     const auto rows = scatter(hora, hora.rank() == 0 ? whole : torch::empty({0, 5}), 0);
torch::Tensor scatter(Runtime& hora, const torch::Tensor& tensor, int root,
                      const std::vector<std::int64_t>& splits = {}, const OperationOptions& options = {});
TensorHandle scatter_async(Runtime& hora, const torch::Tensor& tensor, int root,
                           const std::vector<std::int64_t>& splits = {},
                           const OperationOptions& options = {});

/// The result of `allreduce` on rank `root` only; an undefined tensor on the others. Adasum is refused. No
/// gradient. As MPI_Reduce.
///
///     const auto total = reduce(hora, x, 0, {.op = ReduceOp::sum});
torch::Tensor reduce(Runtime& hora, const torch::Tensor& tensor, int root, const ReduceOptions& options = {});
TensorHandle reduce_async(Runtime& hora, const torch::Tensor& tensor, int root,
                          const ReduceOptions& options = {});

/// The tensor reduced, not by average or adasum, over this rank and those before it in the process set.
/// The shape is the same on all ranks. No gradient. As MPI_Scan.
///
///     const auto up_to_here = scan(hora, x);
torch::Tensor scan(Runtime& hora, const torch::Tensor& tensor, ReduceOp op = ReduceOp::sum,
                   const OperationOptions& options = {});
TensorHandle scan_async(Runtime& hora, const torch::Tensor& tensor, ReduceOp op = ReduceOp::sum,
                        const OperationOptions& options = {});

/// Sends a tensor to rank `dest` of the job: see Runtime::send. A large one is kept as it is until the handle
/// is done, when the receiver has taken it; do not write to it before. Messages travel between CPUs: of a
/// tensor on a GPU a copy in the host's memory is sent. Each process set has messages of its own. No
/// gradient. As MPI_Send, MPI_Isend.
void send(Runtime& hora, const torch::Tensor& tensor, int dest, int tag = 0, int process_set = 0);
Handle isend(Runtime& hora, const torch::Tensor& tensor, int dest, int tag = 0, int process_set = 0);

struct Received {
  torch::Tensor tensor;
  int source;  ///< the rank that sent it
  int tag;
};

/// Receives the tensor that rank `source` (kAnySource: any) sends next with this tag (kAnyTag: any): a new
/// one on the CPU, or in place, on the CPU or a GPU, where dtype and shape have to be those of what is sent,
/// else Error(mismatch) says both.
/// No gradient. As MPI_Recv, MPI_Irecv.
///
///     send(hora, x, 1);                            // on rank 0
///     const Received got = recv(hora, 0);          // on rank 1: got.tensor, got.source, got.tag
///     const auto sending = isend(hora, large, 1);  // sending.wait()
///     const auto coming = irecv(hora);             // coming.wait().tensor
///     recv_(hora, place, 0);                       // into memory that is there
Received recv(Runtime& hora, int source = kAnySource, int tag = kAnyTag, int process_set = 0);
Pending<Received> irecv(Runtime& hora, int source = kAnySource, int tag = kAnyTag, int process_set = 0);
Received recv_(Runtime& hora, const torch::Tensor& tensor, int source = kAnySource, int tag = kAnyTag,
               int process_set = 0);
/// A tensor that is not contiguous has its new values when `wait` has returned.
Pending<Received> irecv_(Runtime& hora, const torch::Tensor& tensor, int source = kAnySource,
                         int tag = kAnyTag, int process_set = 0);

/// Returns when every rank of the process set has called it: `barrier(hora)`.
void barrier(Runtime& hora, int process_set = 0);

/// Runtime::join: this rank has no more batches; it counts as zeros until all ranks have joined. Returns the
/// rank that did last, whose parameters are the ones to be broadcast.
///
///     broadcast_parameters(hora, model, join(hora));
inline int join(Runtime& hora, bool divide_by_initial_size = true) {
  return hora.join(divide_by_initial_size);
}

using NamedTensors = torch::OrderedDict<std::string, torch::Tensor>;

/// Gives every rank the values of rank `root`, in place: `model->named_parameters()`,
/// `model->named_buffers()`. Throws Error(mismatch) on all ranks, and sends nothing, if they differ in
/// number, name, shape or dtype (see require_alike).
void broadcast_parameters(Runtime& hora, const NamedTensors& tensors, int root = 0, int process_set = 0);
/// All parameters and buffers of a module, or of what a holder such as torch::nn::Linear holds.
///
///     broadcast_parameters(hora, model);
///     broadcast_parameters(hora, *shared_pointer_to_a_module, 1);
void broadcast_parameters(Runtime& hora, const torch::nn::Module& module, int root = 0, int process_set = 0);
template <typename Module>
void broadcast_parameters(Runtime& hora, const torch::nn::ModuleHolder<Module>& module, int root = 0,
                          int process_set = 0) {
  broadcast_parameters(hora, *module, root, process_set);
}

/// Whether all ranks of the process set still have the same elements, bit by bit. Throws Error(mismatch) on
/// all of them that names the tensors and the ranks that differ. Reads every element: some milliseconds for
/// each 10 MB. Of a module the parameters; its buffers (running statistics) may be each rank's own.
///
///     check_replicas(hora, model);
///     check_replicas(hora, model->named_buffers());
void check_replicas(Runtime& hora, const NamedTensors& tensors, int process_set = 0);
void check_replicas(Runtime& hora, const torch::nn::Module& module, int process_set = 0);
template <typename Module>
void check_replicas(Runtime& hora, const torch::nn::ModuleHolder<Module>& module, int process_set = 0) {
  check_replicas(hora, *module, process_set);
}

/// The bytes that `make` returns on rank `root`, where alone it is called. An exception is thrown there,
/// and the others get Error(rank_failed) that says it; the job goes on.
std::string broadcast_bytes(Runtime& hora, const std::function<std::string()>& make, int root = 0,
                            const OperationOptions& options = {});
/// The object of rank `root`, as `save` makes bytes (std::string) of it, and `load` an object of those.
///
///     config = broadcast_object(hora, config, 0, to_json, from_json);
template <typename Object, typename Save, typename Load>
Object broadcast_object(Runtime& hora, const Object& object, int root, Save save, Load load,
                        const OperationOptions& options = {}) {
  const std::string bytes =
      broadcast_bytes(hora, [&]() -> std::string { return save(object); }, root, options);
  return hora.rank() == root ? object : load(bytes);
}

/// Gives every rank the state (momentum, step counts, ...) and the options (learning rate, ...) of rank
/// `root`'s SGD, Adam, AdamW, RMSprop or Adagrad; other optimizers throw Error(invalid_argument). Ranks need
/// not have any state yet.
void broadcast_optimizer_state(Runtime& hora, torch::optim::Optimizer& optimizer, int root = 0,
                               int process_set = 0);

struct DistributedOptions {
  Compression compression = Compression::none;
  ReduceOp op = ReduceOp::average;  ///< average, sum or adasum
  std::string name = {};            ///< of this optimizer, the same on all ranks; default: a number, by order
  int process_set = 0;  ///< whose gradients are reduced; on ranks outside it this is the plain optimizer
  /// How many passes of backward() add up before gradients are reduced. They are not divided by it.
  int backward_passes_per_step = 1;
  /// Gradients are divided by it before the sum and multiplied after it. Positive; needs op = average.
  double gradient_predivide_factor = 1.0;
  /// Into how many parts of nearly equal length the parameters are divided; the gradients of a part are
  /// reduced together, or not at all. 0: each for itself. No effect with adasum.
  int groups = 0;
  bool sparse_as_dense = false;  ///< sparse gradients are made dense, and stay so; else they are refused
  bool check_finite = false;     ///< whether DistributedOptimizer::gradients_finite is wanted
};

/// Any optimizer, with gradients that are reduced over all ranks.
///
/// Each gradient's reduction starts as soon as backward() has made it, while backward() goes on, or when all
/// are made where nothing can overlap (Runtime::can_overlap); before backward() returns, all are done; on a
/// GPU the stream on which it was called waits for them, and the host does not.
/// Gradients live side by side in memory that the ranks of a host share, or that NCCL knows, and are reduced
/// where they lie.
///
///  - When backward() returns, gradients are the reduced ones: clip them, look at them.
///  - If backward() fails on one rank, it fails on all: that rank gets its own exception, the others
///    Error(rank_failed). The gradients of all ranks are then undefined, and `step` fails, too, until the
///    next `zero_grad` or backward(). The others wait until the rank does one of these three, or ends.
///  - Accumulation: under `no_sync()`, backward() only adds up; the backward() after it reduces the whole.
///    Without it, each backward() before a step reduces what it has added. With `backward_passes_per_step`,
///    every so many passes end with a reduction, and `step` after fewer reduces what there is.
///  - A parameter that this rank did not use counts as zeros; if no rank used it, its gradient stays
///    undefined.
///  - Parameters that are unfrozen or added to the optimizer later are taken in; on all ranks alike.
///  - Sparse gradients are refused, or made dense (`sparse_as_dense`).
///  - Gradients that have a graph of their own are refused: backward(create_graph=true) throws
///    Error(invalid_argument).
///  - One backward() may reach the parameters of several DistributedOptimizers, in any order on each rank.
///  - On a rank that is alone in the job or the process set, or outside the set, it is the plain optimizer:
///    nothing is copied or sent.
///
/// With op = adasum each rank makes the optimizer's step for itself, on the gradients of its own batch, and
/// what that changes in a parameter is combined over the ranks: parameter = old + Adasum(change on every
/// rank), see ReduceOp. Gradients and the optimizer's state stay those of each rank, and `step` returns this
/// rank's own loss; gradients may be sparse, if the optimizer takes them. The learning rate need not grow
/// with the number of ranks.
///
/// Owns the optimizer, refers to the Runtime while that lives, and takes its hooks back when it is destroyed.
/// A parameter may be in one DistributedOptimizer at a time. One thread at a time, apart from backward(),
/// whose threads call in.
class DistributedOptimizer {
 public:
  /// Throws Error(invalid_argument) if a parameter of the optimizer that requires a gradient has no name, two
  /// share one, or it is in another DistributedOptimizer; or if an option is out of its range.
  DistributedOptimizer(Runtime& hora, std::unique_ptr<torch::optim::Optimizer> optimizer,
                       const NamedTensors& parameters, DistributedOptions options = {});
  template <typename Optimizer>
    requires std::is_base_of_v<torch::optim::Optimizer, Optimizer>
  DistributedOptimizer(Runtime& hora, Optimizer optimizer, const NamedTensors& parameters,
                       DistributedOptions options = {})
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
  /// Whether the reduced gradients have no element that is infinite or not a number; the same on all ranks,
  /// so that a step may be left out on all alike. Calls `synchronize`; waits for the GPU. Throws
  /// Error(invalid_argument) without DistributedOptions::check_finite.
  [[nodiscard]] bool gradients_finite();

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

/// Batch normalisation whose mean and variance are those of all ranks' batches together: values and gradients
/// are those of one process with the whole batch. See torch::nn::BatchNorm1d for the options; without a
/// momentum, running statistics are the plain mean of those of all batches.
///
/// Inputs are floating-point [N, C, ...] on the CPU or a GPU, of 2 dimensions or more; N and the dimensions
/// after C may differ from rank to rank, and N may be 0 on some. The gradients of weight and bias are those
/// of this rank's batch: a DistributedOptimizer reduces them. In evaluation mode with running statistics
/// nothing is sent.
///
/// All ranks of the process set construct their layers in the same order, and call them alike; a rank that
/// has joined counts as an empty batch. Refers to the Runtime.
class SyncBatchNormImpl : public torch::nn::NormImplBase<1, SyncBatchNormImpl, torch::nn::BatchNormOptions> {
 public:
  SyncBatchNormImpl(Runtime& hora, const torch::nn::BatchNormOptions& options, int process_set = 0);

  /// Throws Error(invalid_argument) for an input of another shape or dtype, and, in training, if there is not
  /// more than one value for each channel on all ranks together.
  torch::Tensor forward(const torch::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

 protected:
  void _check_input_dim(const torch::Tensor& input) override;

 private:
  Runtime* hora_;
  OperationOptions operation_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace hora
