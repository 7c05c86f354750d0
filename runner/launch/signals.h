// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <functional>
#include <vector>

namespace hora::hrun {

/// The signals of a program that starts others and waits in poll(): those that tell it to end, and its
/// children's ends. They are blocked, and come as values. The processes that its children leave behind become
/// its own children.
class Signals {
 public:
  /// `others`: beside INT, TERM and CHLD, and HUP if it is not ignored. Throws Error(unavailable).
  explicit Signals(const std::vector<int>& others = {});

  [[nodiscard]] int fd() const { return fd_.fd(); }

  struct Child {
    int pid = 0;
    int wait_status = 0;
  };
  /// Takes the signals that have come since the last call. Calls `changed` for children that have ended, were
  /// stopped, or go on again, in the order in which that is known. Calls `told` for other signals.
  void take(const std::function<void(const Child&)>& changed, const std::function<void(int)>& told);

 private:
  Descriptor fd_;
};

}  // namespace hora::hrun
