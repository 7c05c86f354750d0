// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/address.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

namespace hora {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

AddressList resolve(const Address& address, int flags, std::string& why) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  const int error = ::getaddrinfo(address.host.c_str(), address.port.c_str(), &hints, &list);
  if (error != 0) why = fmt::format("{}: {}", address.host, ::gai_strerror(error));
  return {list, ::freeaddrinfo};
}

Descriptor open_socket(const addrinfo& to) {
  return Descriptor(::socket(to.ai_family, to.ai_socktype | SOCK_CLOEXEC, to.ai_protocol));
}

/// Whether the connection came about before the deadline; else errno says why not.
bool finish_connect(int fd, TimePoint deadline) {
  if (!await_events(fd, POLLOUT, deadline)) {
    errno = ETIMEDOUT;
    return false;
  }
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  errno = error;
  return error == 0;
}

}  // namespace

Address parse_address(const std::string& text) {
  const auto colon = text.rfind(':');
  const bool bracketed = !text.empty() && text.front() == '[';
  const auto end = bracketed ? text.find(']') : colon;
  if (colon == std::string::npos || colon + 1 == text.size() || end == std::string::npos || end == 0 ||
      (bracketed && end + 1 != colon)) {
    throw Error(Code::invalid_argument,
                fmt::format("'{}' is no address: expected host:port or [IPv6]:port", text));
  }
  return {bracketed ? text.substr(1, end - 1) : text.substr(0, end), text.substr(colon + 1)};
}

void prepare_socket(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

Descriptor listen_at(const Address& address) {
  std::string why;
  const auto list = resolve(address, AI_PASSIVE, why);
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    Descriptor socket = open_socket(*at);
    const int on = 1;
    ::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(socket.fd(), at->ai_addr, at->ai_addrlen) == 0 && ::listen(socket.fd(), SOMAXCONN) == 0)
      return socket;
    why = std::strerror(errno);
  }
  throw Error(Code::unavailable, fmt::format("cannot listen at {}:{}: {}", address.host, address.port, why));
}

Address local_address(int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(fd, address, &length) != 0 ||
      ::getnameinfo(address, length, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    throw Error(Code::unavailable, "a socket has no address");
  }
  return {host.data(), port.data()};
}

std::string address_towards(const Address& address) {
  std::string why;
  const auto list = resolve(address, 0, why);
  for (const addrinfo* to = list.get(); to != nullptr; to = to->ai_next) {
    // Connecting a datagram socket sends nothing: it only looks up the route.
    const Descriptor socket(::socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (::connect(socket.fd(), to->ai_addr, to->ai_addrlen) == 0) return local_address(socket.fd()).host;
    why = std::strerror(errno);
  }
  throw Error(Code::unavailable, fmt::format("there is no way to {}: {}", address.host, why));
}

Descriptor try_connect(const Address& address, TimePoint deadline, std::string& why) {
  const auto list = resolve(address, 0, why);
  for (const addrinfo* to = list.get(); to != nullptr; to = to->ai_next) {
    Descriptor socket = open_socket(*to);
    ::fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
    const bool connected = ::connect(socket.fd(), to->ai_addr, to->ai_addrlen) == 0 ||
                           (errno == EINPROGRESS && finish_connect(socket.fd(), deadline));
    if (connected) {
      prepare_socket(socket.fd());
      return socket;
    }
    why = std::strerror(errno);
  }
  return {};
}

Descriptor connect_to(const Address& address, TimePoint deadline) {
  constexpr std::chrono::milliseconds kPause{20};  // between tries: the other side may not have started yet
  std::string why;
  for (;;) {
    Descriptor socket = try_connect(address, deadline, why);
    if (socket) return socket;
    if (Clock::now() + kPause >= deadline) break;
    std::this_thread::sleep_for(kPause);
  }
  throw Error(Code::timeout, fmt::format("nobody answers at {}:{}: {}", address.host, address.port, why));
}

}  // namespace hora
