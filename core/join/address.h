// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/socket_io.h"

#include <string>
#include <vector>

namespace hora {

/// Where a rank listens. A value.
struct Address {
  std::string host;  ///< a name or an IPv4 or IPv6 address
  std::string port;
  bool operator==(const Address&) const = default;
};

/// "host:port" or "[IPv6]:port". Throws Error(invalid_argument).
[[nodiscard]] Address parse_address(const std::string& text);
/// Several, separated by commas. Throws Error(invalid_argument).
[[nodiscard]] std::vector<Address> parse_addresses(const std::string& text);
/// As parse_address reads it.
[[nodiscard]] std::string format(const Address& address);

/// A socket that listens at the address; port "0": any. Throws Error(unavailable) that names the address.
[[nodiscard]] Descriptor listen_at(const Address& address);
/// The address and port that a socket has on this side, or on the other; one of IPv4 always as such. Throw
/// Error(unavailable).
[[nodiscard]] Address local_address(int fd);
[[nodiscard]] Address remote_address(int fd);

/// The numeric addresses that a name has; none, with the reason in `why`, if it has none (yet). Blocks while
/// it asks.
[[nodiscard]] std::vector<Address> resolve_name(const Address& address, std::string& why);

/// A non-blocking socket that begins to connect to a numeric address; nothing when that failed at once, with
/// the reason in errno.
[[nodiscard]] Descriptor begin_connect(const Address& address);

/// Sets the options of all sockets of ours: no Nagle delay; closed on exec; and a probe once a minute where
/// nothing else is sent. The probe keeps devices between the hosts from forgetting a connection that is idle.
void prepare_socket(int fd);
/// Sets the options that a connection for data has beside those. Between two ends on this machine nothing is
/// ever congested. A congestion control that spaces its sends, which a system may prefer for its network,
/// only takes time there. With bbr, sums of 16 MiB between four ranks took half as long again. So these
/// connections get the plainest congestion control.
void prepare_data_socket(int fd);

}  // namespace hora
