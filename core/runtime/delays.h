// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/watch/account.h"

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace hora {

/// The work that this rank expects to be busy with: scopes that user threads open and close. Rank 0 is told
/// the scope that ends last. Thread-safe.
class Delays {
 public:
  /// Opens a scope that is meant to end `time` after `now`, and returns its number.
  std::uint64_t open(const std::string& name, std::chrono::milliseconds time, TimePoint now);
  void close(std::uint64_t number);

  /// The delay that rank 0 is to be told, if that has changed since the last call.
  std::optional<Delay> take_change(TimePoint now);
  /// `wake` runs, under the mutex, when there is something to take. {} to end that.
  void on_change(std::function<void()> wake);

 private:
  struct Scope {
    std::string name;
    TimePoint until;
  };
  void change();

  std::mutex mutex_;
  // Under the mutex:
  std::map<std::uint64_t, Scope> scopes_;
  std::uint64_t next_ = 1;
  bool changed_ = false;
  std::function<void()> wake_;
};

}  // namespace hora
