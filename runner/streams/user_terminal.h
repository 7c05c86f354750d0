// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runner/streams/terminal.h"

#include <termios.h>

#include <optional>

namespace hora::hrun {

/// The terminal at which hrun was started, while what the user types goes to the terminal of a rank: each key
/// at once, and without an echo here, as that terminal edits and echoes lines itself. Ctrl-C and Ctrl-Z
/// remain for hrun. The terminal is touched only while hrun is in its foreground, and has its own modes again
/// after `give_back`.
class UserTerminal {
 public:
  /// Borrows the descriptor.
  explicit UserTerminal(int fd) : fd_(fd) {}
  ~UserTerminal() { give_back(); }
  UserTerminal(const UserTerminal&) = delete;
  UserTerminal& operator=(const UserTerminal&) = delete;

  /// Whether keys are for hrun now, and not for a shell or another of its jobs.
  [[nodiscard]] bool in_foreground() const;
  /// Sets the modes, also anew where a shell has changed them. Only in the foreground.
  void take();
  void give_back();

 private:
  const int fd_;
  std::optional<termios> original_;  // the modes of others; empty: they have it
};

}  // namespace hora::hrun
