// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

namespace hora {

/// The process that made this value. A child that was forked from it has a copy, and can see that it is
/// another process. That costs no system call: pthread_atfork counts the forks. So a process that was made by
/// the bare system call (clone, or _Fork) takes itself for its parent.
class OwnerProcess {
 public:
  OwnerProcess();

  /// Whether that is the calling one.
  [[nodiscard]] bool is_this() const;
  /// Throws Error(unavailable) if it is not.
  void check() const;
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
  int forks_;  // that had led from the process which loaded Hora to the owner
};

}  // namespace hora
