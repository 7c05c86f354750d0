// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

namespace hora {

/// Every rank's `mine`, by rank, on every rank. Ranks tell each other their identities by it before an engine
/// runs. All ranks call it in the same order. `mine` may be empty. Throws Error(aborted) when a rank is lost
/// and Error(timeout), which names the ranks that are missing, at the deadline.
std::vector<Bytes> exchange(Control& control, std::span<const std::byte> mine, TimePoint deadline);

}  // namespace hora
