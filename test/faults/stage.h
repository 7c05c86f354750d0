// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace hora {

/// A rank's line to the test that plays a fault: it says where it is, and hears its cues. Thread-safe.
class Stage {
 public:
  /// Connects to the local socket of this path.
  Stage(const std::string& path, int rank);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// Tells what happens to this rank, and when. Returns when it is on its way, so that the process may end.
  void say(const std::string& event, nlohmann::json more = nlohmann::json::object());
  /// Waits for a cue. The process ends where the test is gone.
  void await(const std::string& cue);
  [[nodiscard]] bool heard(const std::string& cue);

 private:
  void listen();

  const int rank_;
  int socket_;
  std::mutex mutex_;
  std::condition_variable arrival_;
  std::set<std::string> cues_;
  std::mutex writing_;
  std::atomic<bool> leaving_{false};
  std::thread listener_;
};

}  // namespace hora
