// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/config.h>
#include <hora/dtype.h>
#include <hora/status.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace hora {

/// What the ranks do together. Spelled as in MPI. The numbers travel between ranks: append only.
enum class Operation : std::uint8_t { allreduce, broadcast, allgather, barrier };
inline constexpr int kOperations = 4;
[[nodiscard]] std::string_view name(Operation operation);

/// How an operation ended.
struct Result {
  Status status;
  std::vector<std::int64_t> shape;      ///< of the output, elements per dimension
  bool contributed = true;              ///< false: every rank was `absent`, and the output was not touched
  std::vector<std::int64_t> rows = {};  ///< allgather: the first dimension that each rank brought
};

/// A tensor on loan: what is to be done with it, where its elements lie, and whom to tell.
///
/// From `Runtime::submit` until `done` has run (exactly once, always, also on failure) the memory belongs to
/// the runtime. Elements are contiguous, in host memory, first dimension slowest. A value.
struct Entry {
  Operation operation = Operation::allreduce;
  std::string name;  ///< equal on all ranks; may be used again once its operation is done
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;  ///< elements per dimension; empty: a scalar
  const void* input = nullptr;
  void* output = nullptr;  ///< as large as the input; may be the input. Not for allgather.

  // allreduce: output = postscale * op(prescale * input of every rank)
  ReduceOp op = ReduceOp::average;
  double prescale = 1.0;
  double postscale = 1.0;
  DType wire =
      DType::float32;  ///< float16 or bfloat16: float32 and float64 elements travel as that; else as they are
  bool absent = false;  ///< this rank has nothing to add and counts as zeros; `input` is not read

  int root = 0;  ///< broadcast: the rank whose elements all receive

  /// allgather: returns memory for an output of this shape. Called once, on Hora's thread, when all ranks
  /// have said how much they bring.
  std::function<void*(const std::vector<std::int64_t>& shape)> allocate;

  /// Called exactly once, on Hora's thread or, for a Runtime that has ended, in `submit`. Must not throw or
  /// block.
  std::function<void(const Result&)> done;
};

/// An operation under way. Copies refer to the same one. Thread-safe.
class Handle {
 public:
  struct State;
  explicit Handle(std::shared_ptr<State> state) : state_(std::move(state)) {}

  /// Whether `wait` would return at once.
  [[nodiscard]] bool poll() const;
  /// Blocks until the operation has ended or the time is over; whether it has ended.
  [[nodiscard]] bool wait_for(std::chrono::milliseconds time) const;
  /// Blocks until the operation has ended. Throws Error with its status unless that is ok.
  const Result& wait() const;

 private:
  std::shared_ptr<State> state_;
};

struct World;

/// This process's seat in a job: its rank, and the engine that carries out operations with the other ranks.
///
/// Constructing one meets the other ranks; all ranks construct theirs. Destroying it waits until every rank
/// does (`shutdown`), unless the job has failed. In a forked child rank and size still answer; all else
/// throws Error(unavailable), and destroying the copy releases nothing. Thread-safe.
class Runtime {
 public:
  /// Throws Error(timeout) if the ranks do not meet in time, Error(unavailable) if they may not talk.
  explicit Runtime(const Config& config = Config::from_environment());
  /// For those who connect the ranks themselves (core/comm/world.h), such as ranks that are threads.
  Runtime(World world, const Config& config);
  Runtime(Runtime&&) noexcept;
  Runtime& operator=(Runtime&&) noexcept;
  ~Runtime();

  [[nodiscard]] int rank() const;
  [[nodiscard]] int size() const;
  [[nodiscard]] int local_rank() const;
  [[nodiscard]] int local_size() const;
  [[nodiscard]] int cross_rank() const;
  [[nodiscard]] int cross_size() const;

  /// Starts an operation and returns at once. Throws Error(invalid_argument) for what this rank can see is
  /// wrong (a name that is under way already, an unknown root, ...) and Error(aborted) once the job has
  /// ended; then `done` is not called. What only all ranks together can see (shapes that differ) comes with
  /// the Handle.
  Handle submit(Entry entry);

  /// 1, 2, 3, ...: for the names of operations that nobody gave a name. Ranks that issue them in the same
  /// order get the same numbers.
  [[nodiscard]] std::uint64_t next_number();

  /// Memory that the ranks of this host exchange fastest: tensors in it are reduced where they lie.
  /// Zero-filled, aligned to 64 bytes, valid for as long as the pointer lives, also after the Runtime.
  /// `bytes` may be 0.
  [[nodiscard]] std::shared_ptr<std::byte> allocate(std::size_t bytes);

  /// Leaves the job: waits until every rank has called it, and ends what is still pending with
  /// Error(aborted). With a `reason`, such as the text of the exception that ends this program, the job
  /// fails: it waits for nobody, and all other ranks get an Error(aborted) that says the reason. Idempotent.
  void shutdown(const std::string& reason = {});

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

/// Joins the job that the environment describes (hrun sets it), or a job of one rank.
[[nodiscard]] inline Runtime init() { return Runtime(); }

/// "0.1.0"
[[nodiscard]] const char* version();

}  // namespace hora
