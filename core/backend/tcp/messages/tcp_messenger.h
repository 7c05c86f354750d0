// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/messenger.h"
#include "core/comm/world.h"

#include <hora/config.h>

#include <memory>

namespace hora::tcp {

/// Messages over sockets, which are opened when they are first needed. All ranks call it: they tell each
/// other where they listen. Throws Error(aborted), (timeout), (unavailable), and (invalid_argument) for a
/// HORA_NETWORK that selects nothing.
std::unique_ptr<Messenger> connect_tcp_messenger(const World& world, const Config& config,
                                                 TimePoint deadline);

}  // namespace hora::tcp
