// SPDX-License-Identifier: Apache-2.0
#include "core/join/address_book.h"

#include "core/base/bytes.h"
#include "core/join/exchange.h"
#include "core/join/listener.h"
#include "core/join/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hora {
namespace {

constexpr std::size_t kMostAddresses = 32;
constexpr std::size_t kMostAddressText = 64;
constexpr std::uint64_t kPorts = 1 << 16;

/// Whether all ranks have met over the loopback: then no other host need be able to connect.
bool all_here(const std::vector<Member>& members) {
  return std::all_of(members.begin(), members.end(), [](const Member& member) {
    return !member.addresses.empty() &&
           std::all_of(member.addresses.begin(), member.addresses.end(), is_loopback);
  });
}

/// Where this rank can be reached, the likeliest first: as it was seen when the ranks met, then all others.
std::vector<std::string> published(const Member& self, const std::string& network) {
  auto own = own_addresses(network);
  if (!network.empty()) return own;
  std::vector<std::string> all;
  std::copy_if(self.addresses.begin(), self.addresses.end(), std::back_inserter(all),
               [](const auto& address) { return !is_loopback(address); });
  std::copy_if(own.begin(), own.end(), std::back_inserter(all), [&](const auto& address) {
    return std::find(self.addresses.begin(), self.addresses.end(), address) == self.addresses.end();
  });
  all.resize(std::min(all.size(), kMostAddresses));
  return all;
}

Bytes encode(const std::vector<std::string>& addresses, const std::string& port) {
  Writer out;
  out.u64(std::stoul(port)).u64(addresses.size());
  for (const auto& address : addresses) out.string(address);
  return out.take();
}

std::vector<Address> decode_addresses(std::span<const std::byte> bytes) {
  Reader in(bytes);
  const std::string port = fmt::to_string(in.below(kPorts, "a port"));
  std::vector<Address> addresses;
  const std::size_t count = in.count(1, "addresses");
  for (std::size_t i = 0; i < count; ++i) addresses.push_back({in.string(kMostAddressText), port});
  in.finish();
  return addresses;
}

}  // namespace

AddressBook tell_where(const World& world, const Config& config, TimePoint deadline) {
  const Member& self = world.members[static_cast<std::size_t>(world.membership.rank)];
  const bool here = config.network.empty() && all_here(world.members);
  AddressBook address_book;
  address_book.listener = here ? listen_at({self.addresses.front(), "0"}) : listen_on_network(config.network);
  if (!address_book.listener) {
    throw Error(Code::unavailable,
                fmt::format("cannot listen at this machine's addresses: {}", std::strerror(errno)));
  }
  const auto addresses = here ? self.addresses : published(self, config.network);
  const std::string port = local_address(address_book.listener.fd()).port;
  for (const auto& told : exchange(*world.control, encode(addresses, port), deadline))
    address_book.addresses.push_back(decode_addresses(told));
  return address_book;
}

}  // namespace hora
