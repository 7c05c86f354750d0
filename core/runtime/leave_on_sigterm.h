// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/runtime/generations.h"

namespace hora {

/// From here on SIGTERM makes this process ask to leave (Generations::ask_to_leave): see
/// Runtime::leave_on_sigterm. Refers to `generations` until `forget_sigterm`.
void leave_on_sigterm(Generations& generations);

/// From here on SIGTERM ends the process again, if `leave_on_sigterm` was called for these. Waits for a
/// signal handler that runs in another thread.
void forget_sigterm(const Generations& generations);

}  // namespace hora
