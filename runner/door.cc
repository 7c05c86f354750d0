// SPDX-License-Identifier: Apache-2.0
#include "runner/door.h"

#include "runner/process.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>

namespace hora {
namespace {

/// Where to listen, with any port.
struct Place {
  sockaddr_storage address{};
  socklen_t length = 0;
};

Place everywhere() {
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  Place place;
  place.length = sizeof six;
  std::memcpy(&place.address, &six, sizeof six);
  return place;
}

Place everywhere_or_here(in_addr_t where) {
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(where);
  Place place;
  place.length = sizeof four;
  std::memcpy(&place.address, &four, sizeof four);
  return place;
}

/// A socket that listens there; none where the machine does not have this kind of address.
Descriptor listen_at(const Place& place) {
  Descriptor socket(::socket(place.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int no = 0;
  if (place.address.ss_family == AF_INET6 && socket)
    ::setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  const auto* address = reinterpret_cast<const sockaddr*>(&place.address);
  if (!socket || ::bind(socket.fd(), address, place.length) != 0 || ::listen(socket.fd(), SOMAXCONN) != 0)
    return {};
  return socket;
}

int port_of(int fd) {
  sockaddr_storage found{};
  socklen_t length = sizeof found;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&found), &length) != 0)
    fail("cannot tell a socket's port");
  in_port_t port = 0;
  const auto offset =
      found.ss_family == AF_INET6 ? offsetof(sockaddr_in6, sin6_port) : offsetof(sockaddr_in, sin_port);
  std::memcpy(&port, reinterpret_cast<const char*>(&found) + offset, sizeof port);
  return ntohs(port);
}

}  // namespace

Door::Door(bool alone) {
  if (alone) {
    socket_ = listen_at(everywhere_or_here(INADDR_LOOPBACK));
    if (!socket_) fail("cannot listen on 127.0.0.1");
  } else {
    socket_ = listen_at(everywhere());
    if (!socket_) socket_ = listen_at(everywhere_or_here(INADDR_ANY));
    if (!socket_) fail("cannot listen on this machine's addresses");
  }
  port_ = port_of(socket_.fd());
}

}  // namespace hora
