// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/world.h"
#include "core/join/address.h"

#include <hora/config.h>

#include <vector>

namespace hora {

/// Where this rank waits for others, and where they do.
struct AddressBook {
  Descriptor listener;
  std::vector<std::vector<Address>> addresses;  ///< by rank: its addresses, the likeliest first
};

/// Opens a listener, tells the others where it is, and learns where theirs are. The world has its control
/// and its members. All ranks call it. Throws Error(aborted), (timeout), (unavailable), and
/// (invalid_argument) for a HORA_NETWORK that selects nothing.
[[nodiscard]] AddressBook tell_where(const World& world, const Config& config, TimePoint deadline);

}  // namespace hora
