// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace hora {

/// The clock of deadlines and durations: the same for all processes of a host, and never set back.
using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;

}  // namespace hora
