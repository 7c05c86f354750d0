// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/stack.h>

#include <chrono>
#include <string>

namespace hora {

/// Installs the handler (hora/stack.h) that tells the frames of native code, unless the program has one of
/// its own. Idempotent.
void install_stack_signal();

/// The main thread's stack, a line each frame, indented, the innermost first; in one line, as
/// own_python_frames, if it is Python's and HORA_FULL_TRACES is not set; empty if it does not answer in time.
[[nodiscard]] std::string main_thread_stack(std::chrono::milliseconds time);

}  // namespace hora
