// SPDX-License-Identifier: Apache-2.0
#include "core/join/listener.h"

#include "core/join/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>

namespace hora {
namespace {

template <typename Address>
bool listens(const Descriptor& socket, const Address& address) {
  return ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
         ::listen(socket.fd(), SOMAXCONN) == 0;
}

Descriptor open_socket(int family) {
  Descriptor socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  if (socket) ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return socket;
}

Descriptor listen_at_4(in_addr where, std::uint16_t port) {
  Descriptor socket = open_socket(AF_INET);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr = where;
  address.sin_port = htons(port);
  return socket && listens(socket, address) ? std::move(socket) : Descriptor();
}

Descriptor listen_at_6(const in6_addr& where, std::uint16_t port) {
  Descriptor socket = open_socket(AF_INET6);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_addr = where;
  address.sin6_port = htons(port);
  return socket && listens(socket, address) ? std::move(socket) : Descriptor();
}

}  // namespace

Descriptor listen_everywhere(std::uint16_t port) {
  Descriptor both = open_socket(AF_INET6);
  const int off = 0;
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  if (both && ::setsockopt(both.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0) {
    if (listens(both, address)) return both;
    if (errno == EADDRINUSE) return {};
  }
  return listen_at_4({htonl(INADDR_ANY)}, port);
}

Descriptor listen_on_network(const std::string& network, std::uint16_t port) {
  const auto chosen = network.empty() ? std::vector<std::string>() : own_addresses(network);
  if (chosen.size() != 1) return listen_everywhere(port);
  in_addr four{};
  if (::inet_pton(AF_INET, chosen.front().c_str(), &four) == 1) return listen_at_4(four, port);
  in6_addr six{};
  ::inet_pton(AF_INET6, chosen.front().c_str(), &six);
  return listen_at_6(six, port);
}

Descriptor listen_on_loopback() { return listen_at_4({htonl(INADDR_LOOPBACK)}, 0); }

std::uint16_t port_of(const Descriptor& socket) {
  sockaddr_in6 address{};  // as large as both; the port lies at the same place
  socklen_t length = sizeof address;
  ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin6_port);
}

}  // namespace hora
