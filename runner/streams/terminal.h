// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

namespace hora::hrun {

/// How large a terminal is, in characters. A value.
struct WindowSize {
  int rows = 24;
  int columns = 80;
  bool operator==(const WindowSize&) const = default;
};

/// The size of the terminal behind a descriptor; the usual one where it does not say.
[[nodiscard]] WindowSize size_of(int terminal);
/// Gives it this size; its programs get WINCH.
void resize(int terminal, WindowSize size);

/// A pseudo terminal: the side for a program, and ours, where its output is read and its keys are written.
/// Moves.
struct PseudoTerminal {
  Descriptor master;
  Descriptor slave;
};
/// It edits and echoes lines, and turns its keys into signals, as a new terminal does; but a line that a
/// program writes ends with "\n" alone, as in a pipe, and no key stops a program. Throws Error(unavailable).
[[nodiscard]] PseudoTerminal make_terminal(WindowSize size);

/// Whether the descriptor is the master side of a pseudo terminal.
[[nodiscard]] bool is_master(int fd);

}  // namespace hora::hrun
