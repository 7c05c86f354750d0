// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace hora {

class Handle;

/// Tells which operations have ended, to a thread that waits for many things at a time: with poll(2), epoll,
/// asyncio or libuv. Nothing of the program runs on Hora's threads. Thread-safe. In a forked child `watch`
/// and `take` throw Error(unavailable).
///
/// Protocol. The thread that ends an operation appends its token under the mutex, and then makes `fd`
/// readable. `take` first makes `fd` unreadable, and then takes the tokens under the mutex; if it leaves
/// some, it makes `fd` readable again. So a token that one call does not get makes `fd` readable after that
/// call, and none is lost. `fd` may be readable though there is none.
class CompletionQueue {
 public:
  /// Throws Error(unavailable) if this process may open no more files.
  CompletionQueue();
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  /// Puts `token` into the queue once, when the operation has ended, on a GPU, too; at once if it has. The
  /// operation may outlive the queue.
  void watch(const Handle& handle, std::uint64_t token);
  /// A descriptor that can be read, as poll(2) tells, while there are tokens. Only for waiting.
  [[nodiscard]] int fd() const;
  /// Takes tokens of operations that have ended, `most` at most. Never blocks.
  [[nodiscard]] std::vector<std::uint64_t> take(std::size_t most = std::numeric_limits<std::size_t>::max());

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hora
