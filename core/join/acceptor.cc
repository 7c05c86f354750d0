// SPDX-License-Identifier: Apache-2.0
#include "core/join/acceptor.h"

#include "core/base/log.h"
#include "core/join/address.h"
#include "core/join/peer_list.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hora {
namespace {

constexpr std::size_t kMostPending = 64;
constexpr std::size_t kMostMemberBytes = 1024;
constexpr std::chrono::seconds kAdmissionLimit{5};
constexpr std::chrono::milliseconds kSilence{
    100};                                       // of a connection, after which another one may take its place
constexpr std::chrono::seconds kHesitation{1};  // the same of one that has sent its hello
constexpr std::chrono::milliseconds kRecovery{100};  // between tries when there are no descriptors

const Status kLeft{Code::aborted, "it closed the connection before it had introduced itself"};

rlim_t descriptor_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

std::string where_from(int fd) {
  try {
    return format(remote_address(fd));
  } catch (const Error&) {
    return "somewhere";  // it has gone
  }
}

}  // namespace

TimePoint Acceptor::PendingConnection::gives_way() const {
  if (stage == Stage::hello) return came + kSilence;
  return came + kHesitation;
}

bool Acceptor::full() const { return pending_.size() >= kMostPending; }

void Acceptor::append_to(std::vector<pollfd>& events) const {
  // A negative one is ignored: a new connection could not be accepted.
  const bool closed = full() || closed_until_ > TimePoint::min();
  events.push_back({closed ? -1 : listener_.fd(), POLLIN, 0});
  for (const auto& one : pending_) events.push_back({one.socket.fd(), POLLIN, 0});
}

TimePoint Acceptor::next() const {
  TimePoint soonest = pending_.empty() ? TimePoint::max() : pending_.front().came + kAdmissionLimit;
  if (closed_until_ > TimePoint::min()) soonest = std::min(soonest, closed_until_);
  if (!full()) return soonest;
  for (const auto& one : pending_) soonest = std::min(soonest, one.gives_way());
  return soonest;
}

std::vector<Acceptor::Arrival> Acceptor::serve(TimePoint now) {
  accept_connections(now);
  std::vector<Arrival> arrivals;
  for (auto pending = pending_.begin(); pending != pending_.end();) {
    try {
      auto arrival = advance(*pending);
      if (!arrival && now >= pending->came + kAdmissionLimit)
        throw Error(Code::timeout, "it did not introduce itself within 5 s");
      if (!arrival) {
        ++pending;
        continue;
      }
      arrivals.push_back(*std::move(arrival));
    } catch (const Error& error) {
      refuse(*pending, error);
    }
    pending = pending_.erase(pending);
  }
  return arrivals;
}

void Acceptor::accept_connections(TimePoint now) {
  if (now < closed_until_) return;
  closed_until_ = TimePoint::min();
  TimePoint since = shortage_ ? shortage_->since : now;
  shortage_.reset();
  while (await_events(listener_.fd(), POLLIN, TimePoint::min()) && make_room(now)) {
    Descriptor socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return pause(errno, now, since);
    since = now;
    prepare_socket(socket.fd());
    pending_.emplace_back(std::move(socket), secret_, rank_, now);
  }
}

bool Acceptor::make_room(TimePoint now) {
  if (!full()) return true;
  const auto goes = std::min_element(pending_.begin(), pending_.end(),
                                     [](const PendingConnection& one, const PendingConnection& other) {
                                       return one.gives_way() < other.gives_way();
                                     });
  if (now < goes->gives_way()) return false;
  pending_.erase(goes);
  return true;
}

void Acceptor::pause(int error, TimePoint now, TimePoint since) {
  const bool out = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  if (!out) return;  // the peer has gone, as a rule; poll() says when there is another
  closed_until_ = now + kRecovery;
  shortage_ = {since, fmt::format("{} (`ulimit -n` is {})", std::strerror(error), descriptor_limit())};
  if (std::exchange(told_of_shortage_, true)) return;
  log(LogLevel::warning, fmt::format("rank {} cannot accept connections of other ranks: {}; raise the limit, "
                                     "or close files and sockets",
                                     rank_, shortage_->why));
}

bool Acceptor::receive(PendingConnection& pending) {
  Bytes& received = pending.received;
  const std::size_t before = received.size();
  received.resize(pending.wanted);
  const auto got =
      ::recv(pending.socket.fd(), received.data() + before, pending.wanted - before, MSG_DONTWAIT);
  const int error = errno;
  received.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got == 0 || (got < 0 && error == ECONNRESET)) throw Error(kLeft);
  if (got < 0 && error != EAGAIN && error != EINTR) throw Error(Code::unavailable, std::strerror(error));
  return received.size() == pending.wanted;
}

std::optional<Acceptor::Arrival> Acceptor::advance(PendingConnection& pending) {
  while (receive(pending)) {
    if (auto arrival = take(pending)) return arrival;
    pending.received.clear();
  }
  return std::nullopt;
}

std::optional<Acceptor::Arrival> Acceptor::take(PendingConnection& pending) {
  using Stage = PendingConnection::Stage;
  switch (pending.stage) {
    case Stage::hello: answer(pending); return std::nullopt;
    case Stage::proof: {
      ProofBytes proof;
      std::copy_n(pending.received.begin(), proof.size(), proof.begin());
      pending.session = pending.responder.check(proof);
      if (pending.responder.initiator().role != Role::control) return let_in(pending, {});
      pending.stage = Stage::head;
      pending.wanted = kSealedHeadBytes;
      return std::nullopt;
    }
    case Stage::head: {
      const FrameHead head = open_head(pending.session->receives, pending.received);
      if (head.kind != FrameKind::member || head.length == 0 || head.length > kMostMemberBytes)
        throw Error(Code::internal, "it did not say who it is");
      pending.stage = Stage::member;
      pending.wanted = head.sealed();
      return std::nullopt;
    }
    case Stage::member: break;
  }
  const Bytes member = open_contents(pending.session->receives, pending.received);
  return let_in(pending, decode_member(member, pending.responder.initiator().rank));
}

void Acceptor::answer(PendingConnection& pending) {
  HelloBytes hello;
  std::copy_n(pending.received.begin(), hello.size(), hello.begin());
  const AnswerBytes answer = pending.responder.answer(hello);
  // The first bytes on a connection: they fit, or nobody is there any more.
  if (::send(pending.socket.fd(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(answer.size()))
    throw Error(kLeft);
  pending.stage = PendingConnection::Stage::proof;
  pending.wanted = kProofBytes;
}

Acceptor::Arrival Acceptor::let_in(PendingConnection& pending, Member member) {
  return {{std::move(pending.socket), *std::move(pending.session)},
          pending.responder.initiator(),
          std::move(member)};
}

void Acceptor::refuse(const PendingConnection& pending, const Error& error) {
  if (error.status() == kLeft || std::exchange(refused_, true)) return;
  log(LogLevel::warning, fmt::format("refused a connection from {} to this job (further ones are not "
                                     "reported): {}",
                                     where_from(pending.socket.fd()), error.what()));
}

}  // namespace hora
