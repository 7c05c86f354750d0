// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/stack.h>

#include <chrono>
#include <string>

namespace hora {

/// Installs the handler (hora/stack.h) that tells the frames of native code, unless the program has one of
/// its own. Idempotent.
void install_stack_signal();

/// The main thread's stack: the program's own frames, as own_frames; with HORA_FULL_TRACES=1 all, a line
/// each, indented, the innermost first. Empty if the thread does not answer in time.
[[nodiscard]] std::string main_thread_stack(std::chrono::milliseconds time);

}  // namespace hora
