// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/probe_socket.h"

#include "runner/launch/hosts.h"
#include "runner/launch/process.h"

#include <hora/status.h>

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <span>

namespace hora::hrun {
namespace {

constexpr std::size_t kTokenBytes = 16;
constexpr auto kTokenTimeout = std::chrono::milliseconds(1000);  // of a connection that shows no token

/// A socket bound to any port of all addresses: of both families, or of IPv4 alone where there is no IPv6.
Descriptor bind_anywhere() {
  Descriptor both(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int off = 0;
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  if (both && ::setsockopt(both.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
      ::bind(both.fd(), reinterpret_cast<const sockaddr*>(&any6), sizeof any6) == 0)
    return both;
  Descriptor four(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  if (!four || ::bind(four.fd(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0)
    fail("cannot listen for the probes of other hosts");
  return four;
}

/// The numeric host and port of one end of a socket. An IPv4 address in IPv6's form is told in its own.
std::pair<std::string, int> end_of(int fd, bool own) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  auto* pointer = reinterpret_cast<sockaddr*>(&address);
  if ((own ? ::getsockname(fd, pointer, &length) : ::getpeername(fd, pointer, &length)) != 0)
    fail("cannot tell the address of a connection");
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  if (::getnameinfo(pointer, length, host.data(), host.size(), service.data(), service.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    fail("cannot tell the address of a connection");
  std::string name = host.data();
  if (constexpr const char* kMapped = "::ffff:";
      name.starts_with(kMapped) && name.find('.') != std::string::npos)
    name.erase(0, std::strlen(kMapped));
  return {name, std::stoi(service.data())};
}

/// Connects, or says why not.
std::string try_address(const std::string& address, int port, TimePoint deadline, Descriptor& connection) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int wrong = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (wrong != 0) return ::gai_strerror(wrong);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  Descriptor fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return std::strerror(errno);
  if (::connect(fd.fd(), found->ai_addr, found->ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return std::strerror(errno);
    if (!await_events(fd.fd(), POLLOUT, deadline)) return "no answer";
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(fd.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return std::strerror(error);
  }
  connection = std::move(fd);
  return {};
}

/// The bytes that a connection shows.
std::string pass(const std::string& token, int round) { return token + fmt::format("{:08x}", round); }

void send_at_once(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

}  // namespace

ProbeSocket::ProbeSocket() : listener_(bind_anywhere()), token_(kTokenBytes, '\0') {
  if (::listen(listener_.fd(), SOMAXCONN) != 0) fail("cannot listen for the probes of other hosts");
  if (::getrandom(token_.data(), token_.size(), 0) != static_cast<ssize_t>(token_.size()))
    fail("no random numbers");
  port_ = end_of(listener_.fd(), true).second;
}

Descriptor ProbeSocket::accept(int round, TimePoint deadline) const {
  const std::string expected = pass(token_, round);
  while (await_events(listener_.fd(), POLLIN, deadline)) {
    Descriptor connection(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection) continue;
    try {
      std::string shown(expected.size(), '\0');
      read_exactly(connection.fd(), std::as_writable_bytes(std::span(shown)),
                   std::min(deadline, Clock::now() + kTokenTimeout));
      if (shown != expected) continue;
    } catch (const Error&) {
      continue;  // not a probe of this job, or one that has given up
    }
    send_at_once(connection.fd());
    return connection;
  }
  throw Error(Code::timeout, "nobody came");
}

Descriptor reach_probe(const std::vector<std::string>& addresses, int port, const std::string& token,
                       int round, TimePoint deadline) {
  std::string troubles;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    const auto left = (deadline - Clock::now()) / static_cast<int>(addresses.size() - i);  // fair shares
    Descriptor connection;
    std::string trouble = try_address(addresses[i], port, Clock::now() + left, connection);
    if (trouble.empty()) {
      send_at_once(connection.fd());
      const std::string shown = pass(token, round);
      write_all(connection.fd(), std::as_bytes(std::span(shown)), deadline);
      return connection;
    }
    troubles +=
        fmt::format("{}{}: {}", troubles.empty() ? "" : ", ", with_number(addresses[i], port), trouble);
  }
  throw Error(Code::unavailable, troubles.empty() ? "it has no address" : troubles);
}

std::string own_end(int fd) { return end_of(fd, true).first; }
std::string other_end(int fd) { return end_of(fd, false).first; }

}  // namespace hora::hrun
