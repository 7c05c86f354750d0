// SPDX-License-Identifier: Apache-2.0
#include "core/join/address.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

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

using Call = int (*)(int, sockaddr*, socklen_t*);

std::optional<Address> find_address(Call call, int fd) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (call(fd, address, &length) != 0 || ::getnameinfo(address, length, host.data(), host.size(), port.data(),
                                                       port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return std::nullopt;
  const std::string_view text = host.data();
  constexpr std::string_view kMapped = "::ffff:";  // IPv4 over a socket for both
  return Address{std::string(text.substr(text.starts_with(kMapped) ? kMapped.size() : 0)), port.data()};
}

Address address_by(Call call, int fd) {
  auto found = find_address(call, fd);
  if (!found) throw Error(Code::unavailable, "a socket has no address");
  return *std::move(found);
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

std::vector<Address> parse_addresses(const std::string& text) {
  std::vector<Address> addresses;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    addresses.push_back(parse_address(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return addresses;
}

std::string format(const Address& address) {
  const bool bracketed = address.host.find(':') != std::string::npos;
  return bracketed ? fmt::format("[{}]:{}", address.host, address.port) : address.host + ":" + address.port;
}

void prepare_socket(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof value);
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 12);
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void prepare_data_socket(int fd) {
  constexpr std::string_view kPlain("reno");  // in every kernel, and allowed to everybody
  const auto here = find_address(::getsockname, fd);
  const auto there = find_address(::getpeername, fd);
  if (here && there && here->host == there->host)
    ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, kPlain.data(), kPlain.size());
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
  throw Error(Code::unavailable, fmt::format("cannot listen at {}: {}", format(address), why));
}

Address local_address(int fd) { return address_by(::getsockname, fd); }
Address remote_address(int fd) { return address_by(::getpeername, fd); }

std::vector<Address> resolve_name(const Address& address, std::string& why) {
  const auto list = resolve(address, 0, why);
  std::vector<Address> numeric;
  for (const addrinfo* at = list.get(); at != nullptr; at = at->ai_next) {
    std::array<char, NI_MAXHOST> host{};
    if (::getnameinfo(at->ai_addr, at->ai_addrlen, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) == 0)
      numeric.push_back({host.data(), address.port});
  }
  return numeric;
}

Descriptor begin_connect(const Address& address) {
  std::string why;
  const auto list = resolve(address, AI_NUMERICHOST, why);
  if (!list) {
    errno = EINVAL;
    return {};
  }
  Descriptor socket = open_socket(*list);
  if (!socket) return {};
  ::fcntl(socket.fd(), F_SETFL, O_NONBLOCK);
  prepare_socket(socket.fd());
  if (::connect(socket.fd(), list->ai_addr, list->ai_addrlen) == 0 || errno == EINPROGRESS) return socket;
  return {};
}

}  // namespace hora
