// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/this_host.h"

#include "core/base/machine.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <future>
#include <memory>

namespace hora::hrun {
namespace {

/// An address without port and scope, IPv4 in IPv6's clothes, so that both compare.
using AddressBytes = std::array<unsigned char, 16>;

AddressBytes raw_address(const sockaddr* address) {
  AddressBytes raw{};
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 six{};
    std::memcpy(&six, address, sizeof six);
    std::memcpy(raw.data(), &six.sin6_addr, raw.size());
  } else {
    sockaddr_in four{};
    std::memcpy(&four, address, sizeof four);
    raw[10] = raw[11] = 0xff;
    std::memcpy(raw.data() + 12, &four.sin_addr, 4);
  }
  return raw;
}

bool is_internet(const sockaddr* address) {
  return address != nullptr && (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

bool is_loopback(const AddressBytes& raw) {
  static constexpr AddressBytes kFour{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 127};
  static constexpr AddressBytes kSix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return raw == kSix || std::equal(kFour.begin(), kFour.begin() + 13, raw.begin());
}

std::vector<AddressBytes> addresses_of_interfaces() {
  std::vector<AddressBytes> all;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return all;
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  for (const ifaddrs* one = list; one != nullptr; one = one->ifa_next) {
    if (is_internet(one->ifa_addr)) all.push_back(raw_address(one->ifa_addr));
  }
  return all;
}

std::vector<AddressBytes> resolve(const std::string& name) {
  std::vector<AddressBytes> all;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &list) != 0) return all;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, ::freeaddrinfo);
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    if (is_internet(one->ai_addr)) all.push_back(raw_address(one->ai_addr));
  }
  return all;
}

}  // namespace

bool is_this_host(const std::string& name) {
  if (name == "localhost" || name == host_name()) return true;
  if (name.find('@') != std::string::npos) return false;  // somebody else's account, which ssh leads to
  const std::vector<AddressBytes> own = addresses_of_interfaces();
  const std::vector<AddressBytes> found = resolve(name);
  return std::any_of(found.begin(), found.end(), [&](const AddressBytes& one) {
    return is_loopback(one) || std::find(own.begin(), own.end(), one) != own.end();
  });
}

std::vector<bool> are_this_host(const std::vector<std::string>& names) {
  std::vector<std::future<bool>> answers;
  answers.reserve(names.size());
  for (const auto& name : names) answers.push_back(std::async(std::launch::async, is_this_host, name));
  std::vector<bool> all;
  all.reserve(names.size());
  for (auto& answer : answers) all.push_back(answer.get());
  return all;
}

}  // namespace hora::hrun
