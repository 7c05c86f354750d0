// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/socket_io.h"

#include <string>

namespace hora {

/// Where a rank listens. A value.
struct Address {
  std::string host;  ///< a name or an IPv4 or IPv6 address
  std::string port;
};

/// "host:port" or "[IPv6]:port". Throws Error(invalid_argument).
[[nodiscard]] Address parse_address(const std::string& text);

/// A socket that listens at the address; port "0": any. Throws Error(unavailable) that names the address.
[[nodiscard]] Descriptor listen_at(const Address& address);
/// The address and port that a socket has on this side.
[[nodiscard]] Address local_address(int fd);

/// The address of this machine from which it reaches the other one: where the other one can reach it. Throws
/// Error(unavailable).
[[nodiscard]] std::string address_towards(const Address& address);

/// A connected socket, without Nagle's delay, closed on exec. Tries every address that the name has, again
/// and again until the deadline, as the other side may not listen yet. Throws Error(timeout) that names the
/// address and the last failure.
[[nodiscard]] Descriptor connect_to(const Address& address, TimePoint deadline);

/// One try; nothing when it was refused, with the reason in `why`.
[[nodiscard]] Descriptor try_connect(const Address& address, TimePoint deadline, std::string& why);

/// What all sockets of ours have: no Nagle delay, closed on exec.
void prepare_socket(int fd);

}  // namespace hora
