// SPDX-License-Identifier: Apache-2.0
#include "core/join/network.h"

#include "core/base/machine.h"

#include <hora/status.h>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cctype>
#include <charconv>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace hora {
namespace {

constexpr const char* kExpected =
    "expected networks (10.1.0.0/16), addresses and names of interfaces (eth0), separated by commas";

/// A numeric address's bytes: 4 or 16.
std::optional<std::vector<std::uint8_t>> bytes_of(const std::string& text) {
  std::vector<std::uint8_t> bytes(sizeof(in6_addr));
  if (::inet_pton(AF_INET6, text.c_str(), bytes.data()) == 1) return bytes;
  bytes.resize(sizeof(in_addr));
  if (::inet_pton(AF_INET, text.c_str(), bytes.data()) == 1) return bytes;
  return std::nullopt;
}

/// The addresses that begin with the same bits. A value.
struct Block {
  std::vector<std::uint8_t> start;
  std::size_t bits = 0;

  [[nodiscard]] bool contains(const std::string& address) const {
    const auto other = bytes_of(address);
    if (!other || other->size() != start.size()) return false;
    for (std::size_t bit = 0; bit < bits; ++bit) {
      const auto mask = static_cast<std::uint8_t>(0x80U >> (bit % 8));
      if (((start[bit / 8] ^ (*other)[bit / 8]) & mask) != 0) return false;
    }
    return true;
  }
};

Block block(const char* first, std::size_t bits) { return {*bytes_of(first), bits}; }

/// An IPv6 address of this kind is of no use without the name of an interface, which differs between hosts.
bool is_link_local_6(const std::string& address) { return block("fe80::", 10).contains(address); }
bool is_link_local(const std::string& address) {
  return block("169.254.0.0", 16).contains(address) || is_link_local_6(address);
}

/// How far down an address goes in the list: real interfaces, bridges of containers, the loopback.
int tier(const InterfaceAddress& at) {
  constexpr std::array<std::string_view, 8> kBridges{"docker", "br-", "virbr",  "cni",
                                                     "lxc",    "lxd", "podman", "vmnet"};
  const auto is_of = [&](std::string_view prefix) { return at.interface.starts_with(prefix); };
  if (is_loopback(at.address)) return 2;
  return !at.running || std::any_of(kBridges.begin(), kBridges.end(), is_of) ? 1 : 0;
}

std::vector<std::string> items_of(const std::string& list) {
  std::vector<std::string> items;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    std::string item = list.substr(begin, end - begin);
    item.erase(0, item.find_first_not_of(" \t"));
    item.erase(item.find_last_not_of(" \t") + 1);
    items.push_back(std::move(item));
    begin = end + 1;
  }
  return items;
}

/// "10.1.0.0/16" or an address alone; nothing for what must be a name.
std::optional<Block> parse_block(const std::string& item) {
  const std::size_t slash = item.find('/');
  auto start = bytes_of(item.substr(0, slash));
  if (slash == std::string::npos) {
    if (!start) return std::nullopt;
    return Block{*start, start->size() * 8};
  }
  std::size_t bits = 0;
  const char* end = item.data() + item.size();
  const auto [stop, error] = std::from_chars(item.data() + slash + 1, end, bits);
  if (!start || error != std::errc() || stop != end || bits > start->size() * 8) {
    throw Error(Code::invalid_argument, fmt::format("'{}' is no network", item));
  }
  return Block{*std::move(start), bits};
}

void check_name(const std::string& item) {
  const bool odd =
      std::any_of(item.begin(), item.end(), [](unsigned char c) { return std::isgraph(c) == 0; });
  if (item.empty() || item.size() >= IF_NAMESIZE || odd) {
    throw Error(Code::invalid_argument, fmt::format("'{}' is no network and no name of an interface", item));
  }
}

/// Whether an interface is meant by a name; with a label ("eth0:1") it is meant by what comes before, too.
bool is_called(const InterfaceAddress& at, const std::string& name) {
  return at.interface == name || at.interface.substr(0, at.interface.find(':')) == name;
}

/// The addresses that one item of HORA_NETWORK selects of those that are ordered. Throws
/// Error(invalid_argument).
std::vector<std::string> select(std::span<const InterfaceAddress> ordered, const std::string& item) {
  const auto wanted = parse_block(item);
  if (!wanted) check_name(item);
  std::vector<std::string> selected;
  for (const auto& at : ordered) {
    const bool fits = wanted ? wanted->contains(at.address) : is_called(at, item);
    if (fits && !is_link_local_6(at.address)) selected.push_back(at.address);
  }
  return selected;
}

std::vector<std::string> defaults(std::span<const InterfaceAddress> ordered) {
  std::vector<std::string> chosen;
  for (const auto& at : ordered) {
    if (!is_loopback(at.address) && !is_link_local(at.address)) chosen.push_back(at.address);
  }
  if (chosen.empty()) chosen.emplace_back("127.0.0.1");
  return chosen;
}

[[noreturn]] void refuse(const std::string& network, const std::string& why,
                         std::span<const InterfaceAddress> all) {
  std::vector<std::string> there;
  for (const auto& at : all) there.push_back(fmt::format("{} {}", at.interface, at.address));
  throw Error(Code::invalid_argument, fmt::format("HORA_NETWORK='{}': {}; {} has {}", network, why,
                                                  host_name(), fmt::join(there, ", ")));
}

}  // namespace

bool is_loopback(const std::string& address) {
  return block("127.0.0.0", 8).contains(address) || block("::1", 128).contains(address);
}

std::vector<std::string> choose_addresses(std::span<const InterfaceAddress> all, const std::string& network) {
  std::vector<InterfaceAddress> ordered(all.begin(), all.end());
  const auto key = [](const InterfaceAddress& at) {
    return std::pair(tier(at), at.address.find(':') != std::string::npos);
  };
  std::stable_sort(ordered.begin(), ordered.end(),
                   [&](const auto& a, const auto& b) { return key(a) < key(b); });
  if (network.empty()) return defaults(ordered);

  std::vector<std::string> chosen;
  for (const auto& item : items_of(network)) {
    try {
      for (auto& address : select(ordered, item)) {
        if (std::find(chosen.begin(), chosen.end(), address) == chosen.end())
          chosen.push_back(std::move(address));
      }
    } catch (const Error& error) {
      refuse(network, fmt::format("{}: {}", error.what(), kExpected), all);
    }
  }
  if (chosen.empty()) refuse(network, "selects no address of this machine", all);
  return chosen;
}

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* first = nullptr;
  if (::getifaddrs(&first) != 0) {
    throw Error(Code::unavailable,
                fmt::format("cannot list this machine's network interfaces: {}", std::strerror(errno)));
  }
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> list(first, ::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* at = list.get(); at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    const int family = at->ifa_addr->sa_family;
    const void* bytes = nullptr;
    if (family == AF_INET) bytes = &reinterpret_cast<const sockaddr_in*>(at->ifa_addr)->sin_addr;
    if (family == AF_INET6) bytes = &reinterpret_cast<const sockaddr_in6*>(at->ifa_addr)->sin6_addr;
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (bytes == nullptr || ::inet_ntop(family, bytes, text.data(), text.size()) == nullptr) continue;
    all.push_back({at->ifa_name, text.data(), (at->ifa_flags & IFF_RUNNING) != 0});
  }
  return all;
}

std::vector<std::string> own_addresses(const std::string& network) {
  return choose_addresses(interface_addresses(), network);
}

}  // namespace hora
