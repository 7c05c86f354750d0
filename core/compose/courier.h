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

/// A thread that runs errands one after the other, in the order in which they were given, while the engine
/// does something else. It starts with the first errand.
///
/// Protocol: one mutex guards everything but the errands themselves, which run without it. Writes of the
/// engine before `send` are visible to the errand, and writes of the errand are visible after `await`. An
/// errand that fails is the last one to run: those behind it, and all later ones, end with its status. An
/// errand waits for nothing that the engine does after `send`. So `await` and `drain` end when the event that
/// the errand itself waits for comes, or is aborted.
///
/// *Engine only.*
class Courier {
 public:
  Courier() = default;
  /// Waits for the errands that are under way.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// Gives it an errand, and returns the errand's number, from 1 up.
  std::uint64_t send(std::function<void()> errand);
  /// Returns when that errand has been run. Throws the Error of the first one that failed, if it is not a
  /// later one than this.
  void await(std::uint64_t number);
  /// Returns when nothing is under way, however it ended.
  void drain();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable sent_;
  std::condition_variable done_;
  std::deque<std::function<void()>> errands_;  // not begun
  std::uint64_t given_ = 0;
  std::uint64_t ended_ = 0;
  std::uint64_t failed_ = 0;  // the number of the first that failed
  Status why_;
  bool leaving_ = false;
  std::thread thread_;
};

}  // namespace hora
