// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

#include <condition_variable>
#include <mutex>
#include <optional>

namespace hora {

/// Where the engine leaves an operation's result and users wait for it. Thread-safe.
struct Handle::State {
  /// Once.
  void set(Result value);

  std::mutex mutex;
  std::condition_variable ready;
  std::optional<Result> result;  // under the mutex until it is set; constant from then on
};

}  // namespace hora
