// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/lobby.h"
#include "core/comm/messenger.h"
#include "core/comm/world.h"

#include <hora/config.h>

#include <functional>
#include <memory>

namespace hora {

/// A connected socket to the lobby of another rank, past the handshake. Throws Error(unavailable). Called
/// from any thread that sends, for one rank at a time.
using Dial = std::function<Descriptor(int rank)>;

/// The messenger of ranks that have met. All ranks call it. Throws Error(aborted), (timeout), (unavailable).
std::unique_ptr<Messenger> connect_tcp_messenger(Control& control, const std::vector<Member>& members,
                                                 const Config& config, TimePoint deadline);

/// Messages over sockets, which are opened when they are first needed. `lobby`: where other ranks come in.
std::unique_ptr<Messenger> make_tcp_messenger(int rank, int ranks, Lobby lobby, Dial dial);

}  // namespace hora
