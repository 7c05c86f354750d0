// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/completion_queue.h>
#include <hora/hora.h>

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace hora {

/// Memory with DLPack, and on the host with the buffer protocol, so that NumPy, PyTorch, CuPy and others can
/// look at it without a copy. Keeps it alive.
struct Memory {
  std::shared_ptr<std::byte> data;
  std::size_t bytes = 0;
  Device device = {};
};

/// How an operation ended.
struct Outcome {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> rows;
  bool contributed;
  std::optional<Memory> memory;
  int last_rank;
  int process_set;
  int source;
  int tag;
  DType dtype;
  bool finite;
};

/// An operation under way, the output that it allocates, if it does, and what is lent to it. Python never
/// runs on Hora's thread: the engine only sets native state, and Python waits for it without the interpreter
/// lock.
///
/// The runtime knows addresses only, so what is lent is kept until the operation has ended, also if whoever
/// has submitted it is gone and nobody waits for it: an optimizer that is dropped after an interrupted
/// backward(), while other ranks may still come to submit their part. It is let go on the threads of Python
/// alone. All of this is used with the interpreter lock.
class Operating {
 public:
  Operating(Handle handle, std::shared_ptr<Memory> output)
      : handle_(std::move(handle)), output_(std::move(output)) {}
  Operating(Operating&&) = default;
  Operating& operator=(Operating&&) = delete;
  ~Operating();

  void keep(pybind11::object lent) { lent_ = std::move(lent); }

  [[nodiscard]] bool has_ended() const { return handle_.has_ended(); }
  [[nodiscard]] bool poll() const { return handle_.poll(); }

  /// Puts the token into the queue when it has ended.
  void watch(CompletionQueue& queue, std::uint64_t token) const { queue.watch(handle_, token); }

  /// Until it has ended, or so many seconds are over; whether it has ended.
  [[nodiscard]] bool wait_for(double seconds) const;

  /// Whether it has ended; lets go of what is lent then.
  bool let_go_if_ended();
  /// Until it has ended; lets go of what is lent.
  Outcome wait();

  /// Until its work has been given to the GPU.
  [[nodiscard]] Outcome wait_on(std::uintptr_t stream) const;

 private:
  [[nodiscard]] Outcome outcome(const Result& result) const;

  Handle handle_;
  std::shared_ptr<Memory> output_;
  pybind11::object lent_;
};

/// Lets go of what was lent to operations that have ended, though nobody has waited for them.
void let_go_of_ended();

/// The stream of a `stream` argument in Python, which is a cudaStream_t as a number.
inline void* stream_of(std::uintptr_t number) { return reinterpret_cast<void*>(number); }

}  // namespace hora
