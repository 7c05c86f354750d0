// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/hora.h>

namespace hora {

/// From here on SIGTERM makes this process ask to leave its elastic job (Runtime::ask_to_leave). It does so
/// also while the interpreter waits in an operation and runs no signal handlers. A second SIGTERM ends the
/// process, and so does the first one in a forked child. Nothing changes if somebody else handles SIGTERM, or
/// if the process has asked already. Refers to the Runtime.
void leave_on_sigterm(Runtime& runtime);

/// The Runtime is going to end: from here on SIGTERM ends the process again. Waits for a signal handler that
/// runs in another thread.
void forget_sigterm();

}  // namespace hora
