// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

namespace hora {

/// Gathers `mine` of every rank on every rank, by rank, by way of rank 0. Ranks use it before an engine runs.
/// All ranks make the same calls in the same order. `mine` may be empty. Throws Error(aborted) if a rank is
/// lost, and Error(timeout) at the deadline. On rank 0 the timeout names the ranks that are missing; on other
/// ranks it names rank 0 alone, as they hear from no other.
std::vector<Bytes> exchange(Control& control, std::span<const std::byte> mine, TimePoint deadline);

}  // namespace hora
