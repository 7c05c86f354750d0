// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/comm/control.h"

#include <hora/config.h>

#include <memory>

namespace hora {

/// Shares an arena with all other ranks, if that can be: nullptr on all ranks alike if it cannot (another host, another
/// container). That is tried, not guessed: rank 0 passes the file to the others over a local socket, on which both
/// sides prove that they know the secret. Throws Error(aborted) when a rank is lost, Error(timeout) at the deadline.
std::unique_ptr<Collective> connect_shm(Control& control, const Config& config, TimePoint deadline);

}  // namespace hora
