// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/event_fd.h"
#include "core/launcher/life_mutex.h"

#include <poll.h>
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <vector>

namespace hora::hrun {

/// Hears of processes that have begun to end, before the kernel has freed their memory, and waitpid tells of
/// them. From then on such a process runs no code of its own, and makes no system call: all its threads are
/// ending in the kernel. See LifeMutex for how much earlier that is.
///
/// Threads. For each process one thread waits in LifeMutex::await_end. Nobody waits for these threads: each
/// ends when its process does. Then it looks in /proc until all threads of the process are ending, and how
/// the process ends. It passes that on under a lock. If /proc does not tell, it passes nothing on.
class EarlyEnds {
 public:
  /// Throws Error(unavailable).
  EarlyEnds() : shared_(std::make_shared<Shared>()) {}

  /// Follows a child of this process. It holds the mutex already. If no thread can be had, nothing is heard
  /// of it early.
  void follow(pid_t child, std::shared_ptr<LifeMutex> mutex);

  struct End {
    pid_t process;
    int wait_status;  ///< as waitpid will tell it
  };
  /// The ends since the last call.
  [[nodiscard]] std::vector<End> take();
  /// The event for which poll() has to wait.
  [[nodiscard]] pollfd event() const { return shared_->event.event(); }

 private:
  struct Shared {
    EventFd event;
    std::mutex mutex;
    std::vector<End> ends;  // under the mutex
  };

  std::shared_ptr<Shared> shared_;
};

}  // namespace hora::hrun
