// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"

#include <hora/config.h>

namespace hora {

/// Meets the other ranks of a membership and connects them: control, messages, and the backend that
/// HORA_CPU_OPERATIONS chooses (core/runtime/backends.h). Knobs that all ranks must agree on become rank 0's
/// in `config`. `former`: World::host_memory of the generation before, if there is one. Throws Error(timeout)
/// at the deadline, (unavailable), (invalid_argument).
World connect(const Membership& membership, Config& config, TimePoint deadline,
              std::shared_ptr<HostMemory> former = nullptr);

}  // namespace hora
