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

constexpr std::size_t kMostStrangers = 64;
constexpr std::size_t kMostMemberBytes = 1024;
constexpr std::chrono::seconds kAdmissionLimit{5};
constexpr std::chrono::milliseconds kSilence{100};   // of a stranger whose place others need
constexpr std::chrono::seconds kHesitation{1};       // the same of one who has said hello
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

TimePoint Acceptor::Stranger::gives_way() const {
  if (stage == Stage::hello) return came + kSilence;
  return came + kHesitation;
}

bool Acceptor::full() const { return strangers_.size() >= kMostStrangers; }

void Acceptor::append_to(std::vector<pollfd>& events) const {
  // A negative one is ignored: whoever knocks could not be let in.
  const bool closed = full() || closed_until_ > TimePoint::min();
  events.push_back({closed ? -1 : listener_.fd(), POLLIN, 0});
  for (const auto& stranger : strangers_) events.push_back({stranger.socket.fd(), POLLIN, 0});
}

TimePoint Acceptor::next() const {
  TimePoint soonest = strangers_.empty() ? TimePoint::max() : strangers_.front().came + kAdmissionLimit;
  if (closed_until_ > TimePoint::min()) soonest = std::min(soonest, closed_until_);
  if (!full()) return soonest;
  for (const auto& stranger : strangers_) soonest = std::min(soonest, stranger.gives_way());
  return soonest;
}

std::vector<Acceptor::Arrival> Acceptor::serve(TimePoint now) {
  accept_strangers(now);
  std::vector<Arrival> arrivals;
  for (auto stranger = strangers_.begin(); stranger != strangers_.end();) {
    try {
      auto arrival = advance(*stranger);
      if (!arrival && now >= stranger->came + kAdmissionLimit)
        throw Error(Code::timeout, "it did not introduce itself within 5 s");
      if (!arrival) {
        ++stranger;
        continue;
      }
      arrivals.push_back(*std::move(arrival));
    } catch (const Error& error) {
      refuse(*stranger, error);
    }
    stranger = strangers_.erase(stranger);
  }
  return arrivals;
}

void Acceptor::accept_strangers(TimePoint now) {
  if (now < closed_until_) return;
  closed_until_ = TimePoint::min();
  TimePoint since = shortage_ ? shortage_->since : now;
  shortage_.reset();
  while (await_events(listener_.fd(), POLLIN, TimePoint::min()) && make_room(now)) {
    Descriptor socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return pause(errno, now, since);
    since = now;
    prepare_socket(socket.fd());
    strangers_.emplace_back(std::move(socket), secret_, rank_, now);
  }
}

bool Acceptor::make_room(TimePoint now) {
  if (!full()) return true;
  const auto goes = std::min_element(
      strangers_.begin(), strangers_.end(),
      [](const Stranger& one, const Stranger& other) { return one.gives_way() < other.gives_way(); });
  if (now < goes->gives_way()) return false;
  strangers_.erase(goes);
  return true;
}

void Acceptor::pause(int error, TimePoint now, TimePoint since) {
  const bool out = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
  if (!out) return;  // who knocked has gone, as a rule; poll() says when there is another
  closed_until_ = now + kRecovery;
  shortage_ = {since, fmt::format("{} (`ulimit -n` is {})", std::strerror(error), descriptor_limit())};
  if (std::exchange(told_of_shortage_, true)) return;
  log(LogLevel::warning, fmt::format("rank {} cannot accept connections of other ranks: {}; raise the limit, "
                                     "or close files and sockets",
                                     rank_, shortage_->why));
}

bool Acceptor::receive(Stranger& stranger) {
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

std::optional<Acceptor::Arrival> Acceptor::advance(Stranger& stranger) {
  while (receive(stranger)) {
    if (auto arrival = take(stranger)) return arrival;
    stranger.received.clear();
  }
  return std::nullopt;
}

std::optional<Acceptor::Arrival> Acceptor::take(Stranger& stranger) {
  using Stage = Stranger::Stage;
  switch (stranger.stage) {
    case Stage::hello: answer(stranger); return std::nullopt;
    case Stage::proof: {
      ProofBytes proof;
      std::copy_n(stranger.received.begin(), proof.size(), proof.begin());
      stranger.session = stranger.responder.check(proof);
      if (stranger.responder.initiator().role != Role::control) return let_in(stranger, {});
      stranger.stage = Stage::head;
      stranger.wanted = kSealedHeadBytes;
      return std::nullopt;
    }
    case Stage::head: {
      const FrameHead head = open_head(stranger.session->receives, stranger.received);
      if (head.kind != FrameKind::member || head.length == 0 || head.length > kMostMemberBytes)
        throw Error(Code::internal, "it did not say who it is");
      stranger.stage = Stage::member;
      stranger.wanted = head.sealed();
      return std::nullopt;
    }
    case Stage::member: break;
  }
  const Bytes member = open_contents(stranger.session->receives, stranger.received);
  return let_in(stranger, decode_member(member, stranger.responder.initiator().rank));
}

void Acceptor::answer(Stranger& stranger) {
  HelloBytes hello;
  std::copy_n(stranger.received.begin(), hello.size(), hello.begin());
  const AnswerBytes answer = stranger.responder.answer(hello);
  // The first bytes on a connection: they fit, or nobody is there any more.
  if (::send(stranger.socket.fd(), answer.data(), answer.size(), MSG_DONTWAIT | MSG_NOSIGNAL) !=
      static_cast<ssize_t>(answer.size()))
    throw Error(kLeft);
  stranger.stage = Stranger::Stage::proof;
  stranger.wanted = kProofBytes;
}

Acceptor::Arrival Acceptor::let_in(Stranger& stranger, Member member) {
  return {{std::move(stranger.socket), *std::move(stranger.session)},
          stranger.responder.initiator(),
          std::move(member)};
}

void Acceptor::refuse(const Stranger& stranger, const Error& error) {
  if (error.status() == kLeft || std::exchange(refused_, true)) return;
  log(LogLevel::warning, fmt::format("refused a connection from {} to this job (further ones are not "
                                     "reported): {}",
                                     where_from(stranger.socket.fd()), error.what()));
}

}  // namespace hora
