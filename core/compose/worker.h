// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/status.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace hora {

/// A thread that runs tasks one after the other, in the order in which they were given, while the engine
/// does something else. It starts with the first task.
///
/// Protocol: one mutex guards everything but the tasks themselves, which run without it. Writes of the
/// engine before `send` are visible to the task, and writes of the task are visible after `await`. A
/// task that fails is the last one to run: those behind it, and all later ones, end with its status. A
/// task waits for nothing that the engine does after `send`. So `await` and `drain` end when the event that
/// the task itself waits for comes, or is aborted.
///
/// *Engine only.*
class Worker {
 public:
  Worker() = default;
  /// Waits for the tasks that are under way.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Gives it a task, and returns the task's number, from 1 up.
  std::uint64_t send(std::function<void()> task);
  /// Returns when that task has been run. Throws the Error of the first one that failed, if it is not a
  /// later one than this.
  void await(std::uint64_t number);
  /// Returns when nothing is under way, however it ended.
  void drain();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable sent_;
  std::condition_variable done_;
  std::deque<std::function<void()>> tasks_;  // not begun
  std::uint64_t given_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t failed_ = 0;  // the number of the first that failed
  Status why_;
  bool leaving_ = false;
  std::thread thread_;
};

}  // namespace hora
