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

constexpr std::size_t kMostStrangers = 256;
constexpr std::size_t kMostMemberBytes = 1024;
constexpr std::chrono::seconds kPatience{5};
constexpr std::chrono::seconds kSilence{1};          // of a stranger whose place others need
constexpr std::chrono::milliseconds kRecovery{100};  // between tries when there are no descriptors

const Status kLeft{Code::aborted, "it closed the connection before it had introduced itself"};

}  // namespace

bool Lobby::full() const { return strangers_.size() >= kMostStrangers; }

void Lobby::append_to(std::vector<pollfd>& events) const {
  // A negative one is ignored: whoever knocks could not be let in.
  const bool closed = full() || closed_until_ > TimePoint::min();
  events.push_back({closed ? -1 : listener_.fd(), POLLIN, 0});
  for (const auto& stranger : strangers_) events.push_back({stranger.socket.fd(), POLLIN, 0});
}

TimePoint Lobby::next() const {
  TimePoint soonest = strangers_.empty() ? TimePoint::max() : strangers_.front().came + kPatience;
  if (closed_until_ > TimePoint::min()) soonest = std::min(soonest, closed_until_);
  if (!full()) return soonest;
  for (const auto& stranger : strangers_) {
    if (stranger.stage == Stranger::Stage::hello) return std::min(soonest, stranger.came + kSilence);
  }
  return soonest;
}

std::vector<Lobby::Arrival> Lobby::serve(TimePoint now) {
  accept_strangers(now);
  std::vector<Arrival> arrivals;
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    try {
      auto arrival = advance(*stranger);
      if (!arrival && now >= stranger->came + kPatience)
        throw Error(Code::timeout, "it did not introduce itself within 5 s");
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
  if (now < closed_until_) return;
  closed_until_ = TimePoint::min();
  while (await_events(listener_.fd(), POLLIN, TimePoint::min()) && make_room(now)) {
    Descriptor socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return pause(errno, now);
    prepare_socket(socket.fd());
    strangers_.emplace_back(std::move(socket), secret_, rank_, now);
  }
}

bool Lobby::make_room(TimePoint now) {
  if (!full()) return true;
  const auto silent = std::find_if(strangers_.begin(), strangers_.end(), [&](const Stranger& stranger) {
    return stranger.stage == Stranger::Stage::hello && now >= stranger.came + kSilence;
  });
  if (silent == strangers_.end()) return false;
  strangers_.erase(silent);
  return true;
}

void Lobby::pause(int error, TimePoint now) {
  const bool out = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  if (!out) return;  // who knocked has gone, as a rule; poll() says when there is another
  closed_until_ = now + kRecovery;
  if (std::exchange(short_, true)) return;
  log(LogLevel::warning,
      fmt::format("rank {} cannot accept connections of other ranks: {}; look at `ulimit -n`", rank_,
                  std::strerror(error)));
}

bool Lobby::receive(Stranger& stranger) {
  Bytes& received = stranger.received;
  const std::size_t before = received.size();
  received.resize(stranger.wanted);
  const auto got =
      ::recv(stranger.socket.fd(), received.data() + before, stranger.wanted - before, MSG_DONTWAIT);
  const int error = errno;
  received.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0 || (got < 0 && error == ECONNRESET)) throw Error(kLeft);
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
        const ChallengeBytes challenge = stranger.host.challenge(hello);
        // The first bytes on a connection: they fit, or nobody is there any more.
        if (::send(stranger.socket.fd(), challenge.data(), challenge.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
            static_cast<ssize_t>(challenge.size()))
          throw Error(kLeft);
        stranger.stage = Stage::proof;
        stranger.wanted = kProofBytes;
        break;
      }
      case Stage::proof: {
        ProofBytes proof;
        std::copy_n(stranger.received.begin(), proof.size(), proof.begin());
        stranger.hello = stranger.host.check(proof);
        if (stranger.hello.role != Role::control)
          return Arrival{std::move(stranger.socket), stranger.hello, {}};
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
  if (error.status() == kLeft || std::exchange(refused_, true)) return;
  log(LogLevel::warning,
      fmt::format("refused a connection to this job (further ones are not reported): {}", error.what()));
}

}  // namespace hora
