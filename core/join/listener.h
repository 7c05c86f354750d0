// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <cstdint>
#include <string>

namespace hora {

// Sockets that listen; nothing, with the reason in errno, where that cannot be.

/// At a port (0: any that is free) of all addresses of this machine: of IPv6 and IPv4, or IPv4 alone where
/// there is nothing else.
[[nodiscard]] Descriptor listen_everywhere(std::uint16_t port = 0);
/// At a port of the network that ranks use: of the one address of this machine that `network` (HORA_NETWORK)
/// selects. Where it is empty or selects several, one socket cannot listen at these alone: everywhere. Throws
/// what own_addresses throws.
[[nodiscard]] Descriptor listen_on_network(const std::string& network, std::uint16_t port = 0);
/// At any free port of 127.0.0.1.
[[nodiscard]] Descriptor listen_on_loopback();

/// The port of an internet socket.
[[nodiscard]] std::uint16_t port_of(const Descriptor& socket);

}  // namespace hora
