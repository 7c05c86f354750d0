// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/event_fd.h"

#include <atomic>
#include <functional>
#include <thread>

namespace hora {

/// As long as one lives, its notice runs, on a thread of its own, when this process gets a signal. The
/// program's own handler runs, too, if it was there before; what the signal does to a process that has none
/// does not happen any more, also when the last of these is gone. Nothing in a forked child.
///
/// Threads. The handler only rings event fds, by descriptors in a table of atomics, and is async-signal-safe;
/// `thread_` waits for the event fd and runs the notice.
class OnSignal {
 public:
  /// 0: no signal; then this does nothing. Throws Error(unavailable) if there are too many of these.
  OnSignal(int signal, std::function<void()> notice);
  /// Waits for a notice that runs.
  ~OnSignal();
  OnSignal(const OnSignal&) = delete;
  OnSignal& operator=(const OnSignal&) = delete;

 private:
  void listen();

  const int signal_;
  const std::function<void()> notice_;
  const EventFd event_fd_;
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

}  // namespace hora
