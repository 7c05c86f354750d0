// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/stream.h"

#include <hora/hora.h>

#include <condition_variable>
#include <mutex>
#include <optional>

namespace hora {

/// Where the engine leaves an operation's result and users wait for it. Thread-safe.
struct Handle::State {
  /// The operation's work has been given to a GPU, and its output is there when that reaches the event. Once,
  /// at most.
  void launch(Result value, std::shared_ptr<Event> end);
  /// The operation has ended. Once.
  void set(Result value);

  std::mutex mutex;
  std::condition_variable ready;
  // Each under the mutex until it is set, and constant from then on.
  std::optional<Result> launched;
  std::shared_ptr<Event> event;
  std::optional<Result> result;
};

}  // namespace hora
