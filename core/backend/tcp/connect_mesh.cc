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

/// Links that exist from the beginning.
class ConnectedLinks final : public Links {
 public:
  ConnectedLinks(int rank, std::vector<Descriptor> sockets) : rank_(rank), sockets_(std::move(sockets)) {
    for (const auto& socket : sockets_) descriptors_.push_back(socket.fd());
  }
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int ranks() const override { return static_cast<int>(sockets_.size()); }
  void require(std::span<const int> /*peers*/) override {}
  [[nodiscard]] std::span<const int> sockets(int peer) const override {
    return {&descriptors_[static_cast<std::size_t>(peer)], 1};
  }
  void abort(const Status& /*why*/) noexcept override {
    for (const auto& socket : sockets_) {
      if (socket) ::shutdown(socket.fd(), SHUT_RDWR);
    }
  }

 private:
  int rank_;
  std::vector<Descriptor> sockets_;
  std::vector<int> descriptors_;
};

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
  return make_tcp_collective(std::make_shared<ConnectedLinks>(config.rank, std::move(sockets)),
                             knobs_from(config));
}

}  // namespace hora
