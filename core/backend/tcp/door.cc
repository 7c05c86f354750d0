// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/door.h"

#include "core/backend/tcp/address.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string_view>

namespace hora {
namespace {

/// For IPv6 and IPv4; on hosts without IPv6 for IPv4 alone. Nothing, with the reason in errno, if it is
/// taken.
Descriptor listen_everywhere(std::uint16_t port) {
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  Descriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool both = static_cast<bool>(socket);
  if (!both) socket = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (both) ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  const int bound = both ? ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&any6), sizeof any6)
                         : ::bind(socket.fd(), reinterpret_cast<const sockaddr*>(&any4), sizeof any4);
  return bound == 0 && ::listen(socket.fd(), SOMAXCONN) == 0 ? std::move(socket) : Descriptor();
}

std::uint16_t port_of(const std::string& point) {
  const std::string text = parse_address(point).port;
  std::uint16_t port = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || stop != text.data() + text.size())
    throw Error(Code::invalid_argument, fmt::format("'{}' has no port from 0 to 65535", point));
  return port;
}

}  // namespace

Descriptor listen_at_first_free(const std::string& points) {
  std::string why;
  for (std::string_view rest = points; !rest.empty();) {
    const auto point = rest.substr(0, rest.find(','));
    Descriptor door = listen_everywhere(port_of(std::string(point)));
    if (door) return door;
    why = std::strerror(errno);
    rest.remove_prefix(std::min(point.size() + 1, rest.size()));
  }
  throw Error(Code::unavailable, fmt::format("rank 0 can listen at no port of {}: {}", points, why));
}

}  // namespace hora
