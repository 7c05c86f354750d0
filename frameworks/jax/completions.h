// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/c.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace hora::jax {

/// How operations that were started together have ended: HORA_OK, or the first code that is another, with
/// its message.
struct Outcome {
  int code = HORA_OK;
  std::string message;
};

/// Waits for the operations, takes their outcome, and gives the handles back.
Outcome finish(const std::vector<hora_handle*>& handles);

/// Tells when operations have ended, from threads of its own.
///
/// Protocol. `watch` puts the handles into the table under the mutex, before the queue of completions knows
/// them. Threads wait for the queue's descriptor, take a token, and look it up under the mutex. The last
/// token of a group takes it out of the table; then `done` is called without the mutex. `done` runs the rest
/// of an XLA program: it may take long, call `watch`, and wait for operations itself, as callbacks of Python
/// do. So at least one thread always waits for the descriptor: before `done`, the last one that does starts
/// another, under the mutex. Hence every operation that ends is told of. At most two threads stay. The object
/// and its threads live as long as the process.
class Completions {
 public:
  /// Of this process; the first call starts the threads. Throws std::runtime_error where there are no more
  /// threads or files.
  static Completions& of_process();

  /// Calls `done` once, when all these operations have ended; gives the handles back before. Thread-safe.
  void watch(std::vector<hora_handle*> handles, std::function<void(const Outcome&)> done);
  /// How many calls of `watch` wait.
  [[nodiscard]] std::size_t waiting();

 private:
  struct Group {
    std::vector<hora_handle*> handles;
    std::size_t under_way;
    std::function<void(const Outcome&)> done;
  };

  Completions();
  void start_thread_locked();
  void run();
  std::optional<Group> ended(std::uint64_t token);
  bool may_stay();

  hora_completion_queue* queue_ = nullptr;
  std::mutex mutex_;
  int threads_that_wait_ = 0;              // guarded by the mutex
  std::uint64_t next_ = 0;                 // guarded by the mutex
  std::map<std::uint64_t, Group> groups_;  // guarded by the mutex
};

}  // namespace hora::jax
