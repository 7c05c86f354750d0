// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"

#include <hora/hora.h>

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace hora {

/// Says when an operation that all ranks have asked for stands still: nothing of it has moved for some time.
///
/// The engine tells when it begins and ends one. A thread looks from time to time, an eighth of the limit
/// apart and five seconds at most, so the engine never wakes it. A notice is that late at most. Both read and
/// write the operation under way under `mutex_`. Neither `progress` nor `notice` runs under it, and the
/// destructor waits for a running one.
class Watchdog {
 public:
  /// `progress`: a number that grows when something has moved; thread-safe. `notice` runs once at most for
  /// each operation. 0: it never looks.
  Watchdog(std::chrono::milliseconds limit, std::function<std::uint64_t()> progress,
           std::function<void(const Status&)> notice);
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  /// The engine begins an operation on a tensor and `more` others. *Engine only*, as `end`.
  void begin(Operation operation, const std::string& name, std::size_t more);
  void end();

 private:
  void run();

  const std::chrono::milliseconds limit_;
  const std::function<std::uint64_t()> progress_;
  const std::function<void(const Status&)> notice_;

  std::mutex mutex_;
  std::condition_variable ending_;
  // Under the mutex:
  bool ends_ = false;
  std::uint64_t begun_ = 0;  // operations so far
  bool busy_ = false;        // with the one of that number
  Operation operation_ = Operation::barrier;
  std::string name_;
  std::size_t more_ = 0;

  std::thread thread_;
};

/// For as long as it lives the engine is busy with an operation.
class Watch {
 public:
  Watch(Watchdog& dog, Operation operation, const std::string& name, std::size_t more) : dog_(dog) {
    dog_.begin(operation, name, more);
  }
  ~Watch() { dog_.end(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  Watchdog& dog_;
};

}  // namespace hora
