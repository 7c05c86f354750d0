// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace hora {

// Where a rank's main thread is, for those who wait for the rank: the process sends that thread a signal
// whose handler writes the stack into a pipe. The signal is SIGURG, which nearly nobody uses and which is
// ignored where there is no handler; a program that has one keeps it, and then nothing is known. As every
// handled signal it may end a sleep of the main thread early. A Runtime's handler tells the frames of native
// code; interpreters put one of their own in its place, as Python does with faulthandler. All of this is of
// the process, and thread-safe.

/// The signal and the pipe of such a handler.
struct StackSignal {
  int number = 0;
  int pipe =
      -1;  ///< where it writes to; does not block: what does not fit is lost. -1: the signal is not ours
};
[[nodiscard]] StackSignal stack_signal();

/// The present handler of the signal writes to the pipe.
void adopt_stack_handler();

}  // namespace hora
