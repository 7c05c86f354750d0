// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/address.h"
#include "core/backend/tcp/tcp_collective.h"
#include "core/base/bytes.h"
#include "core/base/log.h"
#include "core/comm/exchange.h"
#include "core/comm/handshake.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

namespace hora {
namespace {

constexpr std::size_t kMostText = 256;
constexpr std::chrono::seconds kPatience{5};  // with one stranger

/// Where every rank listens, by rank.
std::vector<Address> tell_addresses(Control& control, const Address& mine, TimePoint deadline) {
  std::vector<Address> all;
  for (const auto& told : exchange(control, Writer().string(mine.host).string(mine.port).take(), deadline)) {
    Reader in(told);
    Address address;
    address.host = in.string(kMostText);
    address.port = in.string(kMostText);
    in.finish();
    all.push_back(std::move(address));
  }
  return all;
}

/// Takes in one rank that is still missing; whoever else knocks is turned away.
void take_in(const Descriptor& listener, const Config& config, std::vector<Descriptor>& sockets,
             TimePoint deadline) {
  if (!await_events(listener.fd(), POLLIN, deadline)) {
    throw Error(Code::timeout,
                fmt::format("rank {} waited in vain for data connections of other ranks", config.rank));
  }
  Descriptor socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket) return;
  prepare_socket(socket.fd());
  try {
    const Hello hello = welcome(socket.fd(), config.secret, std::min(deadline, Clock::now() + kPatience));
    auto& place = sockets[static_cast<std::size_t>(hello.rank)];
    if (hello.role == Role::data && hello.size == config.size && hello.rank > config.rank)
      place = std::move(socket);
  } catch (const Error& error) {
    log(LogLevel::warning, fmt::format("refused a connection to a data port: {}", error.what()));
  }
}

}  // namespace

std::unique_ptr<Collective> connect_tcp(Control& control, const Config& config, TimePoint deadline) {
  const Descriptor listener = listen_at({address_towards(parse_address(config.coordinator)), "0"});
  const auto addresses = tell_addresses(control, local_address(listener.fd()), deadline);
  std::vector<Descriptor> sockets(static_cast<std::size_t>(config.size));
  // Everybody calls those before it, then waits for those after it: rank 0 waits for all, so nobody waits in
  // a ring.
  for (int rank = 0; rank < config.rank; ++rank) {
    auto& socket = sockets[static_cast<std::size_t>(rank)];
    socket = connect_to(addresses[static_cast<std::size_t>(rank)], deadline);
    greet(socket.fd(), config.secret, {Role::data, config.rank, config.size}, deadline);
  }
  const auto missing = [&] {
    return std::count_if(sockets.begin() + config.rank + 1, sockets.end(),
                         [](const Descriptor& s) { return !s; });
  };
  while (missing() > 0) take_in(listener, config, sockets, deadline);
  Mesh::Sockets shared;
  for (auto& socket : sockets)
    shared.push_back(socket ? std::make_shared<const Descriptor>(std::move(socket)) : nullptr);
  return make_tcp_collective(std::make_unique<Mesh>(config.rank, std::move(shared)));
}

}  // namespace hora
