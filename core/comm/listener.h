// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/socket_io.h"

#include <cstdint>

namespace hora {

// Sockets that listen; nothing, with the reason in errno, where that cannot be.

/// At a port (0: any that is free) of all addresses of this machine: of IPv6 and IPv4, or IPv4 alone where
/// there is nothing else.
[[nodiscard]] Descriptor listen_everywhere(std::uint16_t port = 0);
/// At any free port of 127.0.0.1.
[[nodiscard]] Descriptor listen_on_loopback();

/// The port of an internet socket.
[[nodiscard]] std::uint16_t port_of(const Descriptor& socket);

}  // namespace hora
