// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>

namespace hora {

// Where a rank's main thread is, for those who wait for the rank: the process sends that thread a signal
// whose handler writes the stack into a pipe. The signal is SIGURG, which nearly nobody uses and which is
// ignored where there is no handler; a program that has one keeps it, and then nothing is known. As every
// handled signal it may end a sleep of the main thread early. Interpreters put a handler of their own in the
// place of this one, as Python does with faulthandler. All of it is of the process, and thread-safe.

/// Where a handler writes to, and for which signal.
struct StackSignal {
  int number = 0;
  int pipe = -1;  ///< does not block: what does not fit is lost
};

/// Installs the handler, which tells the frames of the program's native code, unless the program has one of
/// its own. Idempotent.
void install_stack_signal();
/// What another handler needs; a pipe of -1: there is none.
[[nodiscard]] StackSignal stack_signal();
/// The present handler of the signal is one that writes to the pipe.
void adopt_stack_handler();

/// The main thread's stack, a line each frame, indented, the innermost first; empty if it does not answer in
/// time.
[[nodiscard]] std::string main_thread_stack(std::chrono::milliseconds time);

}  // namespace hora
