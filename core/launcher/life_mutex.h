// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/descriptor.h"

#include <pthread.h>
#include <sys/types.h>

namespace hora {

/// A mutex that a process of an elastic job holds as long as it lives, so that hrun hears early of its end.
///
/// It lies in memory that hrun shares with the process, which finds it by HORA_LIFE_FD. It is robust
/// (pthread_mutexattr_setrobust): if the thread that holds it ends, the kernel gives it to the next one that
/// waits. The kernel does so before it frees the memory of a killed process. That takes 50 to 200 ms for a
/// process with PyTorch, and only after that do waitpid and the closed sockets tell of the end.
///
/// One thread of the process holds it. hrun calls `await_end` after the process has done so, for example when
/// it has heard from it. Nothing else is shared but the number of the process, which is written before the
/// mutex is held and read after it was given up.
class LifeMutex {
 public:
  /// Makes one. Throws Error(unavailable).
  LifeMutex();
  /// The one in this memory, which a launcher has made. Borrows the descriptor, which no program that this
  /// one starts inherits from now on. Throws Error(invalid_argument) if there is none.
  explicit LifeMutex(int file);
  /// Gives it up if this object holds it, on the same thread.
  ~LifeMutex();
  LifeMutex(const LifeMutex&) = delete;
  LifeMutex& operator=(const LifeMutex&) = delete;

  /// The memory, for the process to inherit. Only of one that this process has made.
  [[nodiscard]] int file() const { return file_.fd(); }

  /// Holds the mutex, for this process.
  void hold();

  /// Waits until the process gives the mutex up. Returns the process if the thread that held it has ended;
  /// 0 if the process has given it up before, or never held it.
  [[nodiscard]] pid_t await_end();

 private:
  struct Shared {
    pthread_mutex_t mutex;
    pid_t holder;
  };

  void map(int file);

  Descriptor file_;
  Shared* shared_ = nullptr;
  bool holds_ = false;
};

}  // namespace hora
