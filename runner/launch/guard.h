// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

namespace hora::hrun {

/// Ends the process groups of the ranks when hrun dies without having done so (kill -9): a small process that
/// hrun forks before anything else, in a session of its own. It reads process groups from a pipe; when the
/// pipe ends without kEndOfHrun, hrun is dead, and it kills them all. The ranks themselves also die with hrun
/// (PDEATHSIG); the guard is for what they have started.
class Guard {
 public:
  /// Forks the guard. Throws Error(unavailable).
  Guard();
  /// Tells the guard that hrun ends in order, so that it kills nobody. Waits until the guard has ended.
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;

  /// The pipe in which a process group is announced (as an int) that goes with hrun from then on. The code
  /// that starts a group lets the group announce itself, before it can do anything else. Then there is no
  /// moment in which it could be missed.
  [[nodiscard]] int fd() const { return pipe_.fd(); }
  /// The group is empty; others may get its number.
  void forget(int process_group);

 private:
  void tell(int word);

  Descriptor pipe_;
  int pid_ = 0;
};

}  // namespace hora::hrun
