// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <vector>

namespace hora {

/// An address of one of this machine's network interfaces. A value.
struct InterfaceAddress {
  std::string interface;  ///< "eth0", or "eth0:1" where an address has a label
  std::string address;    ///< numeric, without a scope
  bool running = true;    ///< the interface has a carrier
  bool operator==(const InterfaceAddress&) const = default;
};

/// The addresses of this machine that other hosts may reach, the best first. `network` (HORA_NETWORK) selects
/// them, in its order. Without it they are all that are up: those of real interfaces before those that look
/// like bridges of containers or have no carrier. Then IPv4 comes before IPv6, and there are no loopback and
/// no link-local ones; the loopback alone if there is nothing else. Throws Error(invalid_argument) if
/// `network` is malformed or selects nothing: it lists the addresses that there are.
[[nodiscard]] std::vector<std::string> own_addresses(const std::string& network);

/// The same, of these. A pure function.
[[nodiscard]] std::vector<std::string> choose_addresses(std::span<const InterfaceAddress> all,
                                                        const std::string& network);

/// Whether a numeric address is of the loopback: 127.0.0.0/8 or ::1.
[[nodiscard]] bool is_loopback(const std::string& address);

/// All addresses of interfaces that are up, in the kernel's order. Throws Error(unavailable).
[[nodiscard]] std::vector<InterfaceAddress> interface_addresses();

}  // namespace hora
