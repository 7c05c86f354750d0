// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/base/owner_process.h"
#include "core/device/stream.h"

#include <hora/hora.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace hora {

/// The work that a thread can do while it waits for an operation. Thread-safe.
class Helper {
 public:
  virtual ~Helper() = default;
  /// Does what there is to do until the operation has ended, or the deadline; or returns at once, and
  /// somebody else does it.
  virtual void help(const Handle::State& wanted, TimePoint deadline) = 0;
};

/// Where the engine leaves an operation's result and users wait for it. Thread-safe.
struct Handle::State {
  explicit State(std::shared_ptr<Helper> who = nullptr) : helper(std::move(who)) {}

  [[nodiscard]] bool has_ended() const { return ended.load(std::memory_order_acquire); }
  /// The operation's work has been given to a GPU, and its output is there when that reaches the event. Once,
  /// at most.
  void launch(Result value, std::shared_ptr<Event> end);
  /// The operation has ended. Once.
  void set(Result value);
  /// Calls `notice` once the operation has ended: now, or on the thread that calls `set`, in which it must
  /// not block or throw.
  void on_end(std::function<void()> notice);
  /// Lends this thread to the helper. Throws Error(unavailable) in a forked child, where an operation that
  /// has not ended never will.
  void help(TimePoint deadline) const;
  /// As `help`, unless the operation's work has been given to a GPU.
  void help_to_launch(TimePoint deadline);

  const OwnerProcess owner;
  const std::shared_ptr<Helper> helper;  // null: none
  std::atomic<bool> ended{false};        // `result` is set; for a look without the mutex
  bool is_in_graph = false;              // the host never waits for it, and the helper throws; constant
  std::mutex mutex;
  std::condition_variable ready;
  // Each under the mutex until it is set, and constant from then on.
  std::optional<Result> launched;
  std::shared_ptr<Event> event;
  std::optional<Result> result;
  std::vector<std::function<void()>> notices;  // under the mutex until `result` is set
};

}  // namespace hora
