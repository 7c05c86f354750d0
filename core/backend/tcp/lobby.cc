// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/lobby.h"

#include "core/backend/tcp/address.h"
#include "core/backend/tcp/roster.h"
#include "core/base/log.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hora {
namespace {

constexpr std::size_t kMostStrangers = 64;
constexpr std::size_t kMostMemberBytes = 1024;
constexpr std::chrono::seconds kPatience{5};

}  // namespace

void Lobby::append_to(std::vector<pollfd>& events) const {
  events.push_back({listener_.fd(), POLLIN, 0});
  for (const auto& stranger : strangers_) events.push_back({stranger.socket.fd(), POLLIN, 0});
}

TimePoint Lobby::next() const {
  return strangers_.empty() ? TimePoint::max() : strangers_.front().deadline;  // the first came first
}

std::vector<Lobby::Arrival> Lobby::serve(TimePoint now) {
  accept_strangers(now);
  std::vector<Arrival> arrivals;
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    try {
      if (now >= stranger->deadline) throw Error(Code::timeout, "it did not introduce itself within 5 s");
      auto arrival = advance(*stranger);
      if (!arrival) {
        ++stranger;
        continue;
      }
      arrivals.push_back(*std::move(arrival));
    } catch (const Error& error) {
      refuse(error);
    }
    stranger = strangers_.erase(stranger);
  }
  return arrivals;
}

void Lobby::accept_strangers(TimePoint now) {
  while (await_events(listener_.fd(), POLLIN, TimePoint::min())) {
    Descriptor socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    prepare_socket(socket.fd());
    if (strangers_.size() == kMostStrangers) strangers_.erase(strangers_.begin());
    strangers_.emplace_back(std::move(socket), secret_, now + kPatience);
  }
}

bool Lobby::receive(Stranger& stranger) {
  Bytes& received = stranger.received;
  const std::size_t before = received.size();
  received.resize(stranger.wanted);
  const auto got =
      ::recv(stranger.socket.fd(), received.data() + before, stranger.wanted - before, MSG_DONTWAIT);
  const int error = errno;
  received.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0) throw Error(Code::unavailable, "it closed the connection before it had introduced itself");
  if (got < 0 && error != EAGAIN && error != EINTR) throw Error(Code::unavailable, std::strerror(error));
  return received.size() == stranger.wanted;
}

std::optional<Lobby::Arrival> Lobby::advance(Stranger& stranger) {
  using Stage = Stranger::Stage;
  while (receive(stranger)) {
    switch (stranger.stage) {
      case Stage::hello: {
        HelloBytes hello;
        std::copy_n(stranger.received.begin(), hello.size(), hello.begin());
        write_all(stranger.socket.fd(), stranger.host.challenge(hello), Clock::now());
        stranger.stage = Stage::proof;
        stranger.wanted = kProofBytes;
        break;
      }
      case Stage::proof: {
        ProofBytes proof;
        std::copy_n(stranger.received.begin(), proof.size(), proof.begin());
        stranger.hello = stranger.host.check(proof);
        stranger.stage = Stage::head;
        stranger.wanted = kFrameHeadBytes;
        break;
      }
      case Stage::head: {
        std::size_t length = 0;
        for (std::size_t i = 0; i < 4; ++i)
          length |= static_cast<std::size_t>(stranger.received[i]) << (8 * i);
        const bool member = stranger.received[4] == static_cast<std::byte>(FrameKind::member);
        if (!member || length == 0 || length > kMostMemberBytes)
          throw Error(Code::internal, "it did not say who it is");
        stranger.stage = Stage::member;
        stranger.wanted = length;
        break;
      }
      case Stage::member:
        return Arrival{std::move(stranger.socket), stranger.hello,
                       decode_member(stranger.received, stranger.hello.rank)};
    }
    stranger.received.clear();
  }
  return std::nullopt;
}

void Lobby::refuse(const Error& error) {
  if (std::exchange(refused_, true)) return;
  log(LogLevel::warning,
      fmt::format("refused a connection to this job (further ones are not reported): {}", error.what()));
}

}  // namespace hora
