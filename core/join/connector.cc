// SPDX-License-Identifier: Apache-2.0
#include "core/join/connector.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hora {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStagger{250};
constexpr milliseconds kFirstPause{20};
constexpr milliseconds kMostPauseRefused{250};  // it may be about to listen
constexpr milliseconds kMostPause{1000};
constexpr milliseconds kUnanswered{1200};  // Linux sends the first packet again after 1 s
constexpr int kLeastTries = 4;
constexpr std::chrono::seconds kLeastTime{2};
constexpr const char* kClosed =
    "closed the connection without an answer: it is not the rank that is called, or none of this job, whose "
    "ranks have one secret and one version of Hora";

std::string describe(int error) {
  switch (error) {
    case ECONNREFUSED: return "refused";
    case ETIMEDOUT: return "timed out";
    case EMFILE:
      return "not tried, as this process has too many open files: raise `ulimit -n`, or close files and "
             "sockets";
    default: return std::strerror(error);
  }
}

}  // namespace

Connector::Connector(const Secret& secret, const Hello& hello, const std::vector<Address>& addresses,
                     TimePoint now)
    : secret_(secret), hello_(hello), since_(now), next_begin_(now) {
  for (const auto& address : addresses) add(address);
}

void Connector::add(const Address& address) {
  const bool known =
      std::any_of(tries_.begin(), tries_.end(), [&](const Try& other) { return other.address == address; });
  if (!known) tries_.push_back({.address = address});
}

std::optional<Connection> Connector::serve(TimePoint now) {
  begin(now);
  for (std::size_t at = 0; at < begun_; ++at) {
    Try& attempt = tries_[at];
    if (!attempt.socket && now >= attempt.again) open(attempt, now);
    if (attempt.socket && !attempt.connected) {
      if (now >= attempt.late) attempt.late = TimePoint::max();
      begin_talk(attempt, now);
    } else if (attempt.socket) {
      auto session = answered(attempt, now);
      if (!session) continue;
      found_ = at;
      Connection connection{std::move(attempt.socket), *std::move(session)};
      for (auto& other : tries_) other.socket = Descriptor();
      return connection;
    }
  }
  begin(now);
  return std::nullopt;
}

void Connector::begin(TimePoint now) {
  const auto pending = [this] {
    return std::any_of(tries_.begin(), tries_.end(), [](const Try& one) { return bool(one.socket); });
  };
  while (begun_ < tries_.size() && (now >= next_begin_ || !pending())) {
    open(tries_[begun_++], now);
    next_begin_ = now + kStagger;
  }
}

void Connector::open(Try& attempt, TimePoint now) {
  attempt.again = TimePoint::max();
  attempt.connected = false;
  attempt.late = now + kUnanswered;
  attempt.received.clear();
  attempt.initiator.emplace(secret_, hello_);
  attempt.socket = begin_connect(attempt.address);
  if (!attempt.socket) fail(attempt, describe(errno), now, kMostPauseRefused);
}

void Connector::begin_talk(Try& attempt, TimePoint now) {
  if (!await_events(attempt.socket.fd(), POLLOUT, TimePoint::min())) return;
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(attempt.socket.fd(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) {
    fail(attempt, describe(error), now, error == ECONNREFUSED ? kMostPauseRefused : kMostPause);
    return;
  }
  attempt.connected = true;
  const auto& hello = attempt.initiator->hello();
  const auto sent = ::send(attempt.socket.fd(), hello.data(), hello.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(hello.size())) fail(attempt, kClosed, now, kMostPause);
}

std::optional<SessionKeys> Connector::answered(Try& attempt, TimePoint now) {
  Bytes& received = attempt.received;
  const std::size_t before = received.size();
  received.resize(kAnswerBytes);
  const auto got =
      ::recv(attempt.socket.fd(), received.data() + before, received.size() - before, MSG_DONTWAIT);
  const int error = errno;
  received.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  if (got < 0 && (error == EAGAIN || error == EINTR)) return std::nullopt;
  if (got < 0 || (got == 0 && before == 0)) {
    fail(attempt, kClosed, now, kMostPause);
  } else if (got == 0 || !may_be_answer(received)) {
    fail(attempt, "another service answered", now, kMostPause);
  } else if (received.size() == kAnswerBytes) {
    try {
      return prove(attempt);
    } catch (const Error& refusal) {
      fail(attempt, refusal.what(), now, kMostPause);
    }
  }
  return std::nullopt;
}

std::optional<SessionKeys> Connector::prove(Try& attempt) {
  AnswerBytes answer;
  std::copy_n(attempt.received.begin(), answer.size(), answer.begin());
  auto proof = attempt.initiator->prove(answer);
  const auto sent = ::send(attempt.socket.fd(), proof.bytes.data(), proof.bytes.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(proof.bytes.size())) throw Error(Code::unavailable, kClosed);
  return std::move(proof.session);
}

void Connector::fail(Try& attempt, std::string how, TimePoint now, milliseconds most) {
  attempt.socket = Descriptor();
  attempt.how = std::move(how);
  attempt.again = now + std::min(most, kFirstPause * (1 << std::min(attempt.failed, 8)));
  ++attempt.failed;
}

void Connector::append_to(std::vector<pollfd>& events) const {
  for (const auto& attempt : tries_) {
    if (attempt.socket)
      events.push_back({attempt.socket.fd(), static_cast<short>(attempt.connected ? POLLIN : POLLOUT), 0});
  }
}

TimePoint Connector::next() const {
  TimePoint soonest = begun_ < tries_.size() ? next_begin_ : TimePoint::max();
  for (std::size_t at = 0; at < begun_; ++at) {
    const Try& attempt = tries_[at];
    soonest = std::min(soonest, attempt.socket && !attempt.connected ? attempt.late : attempt.again);
  }
  return soonest;
}

bool Connector::hopeless(TimePoint now) const {
  return now >= since_ + kLeastTime && std::all_of(tries_.begin(), tries_.end(), [](const Try& attempt) {
           return !attempt.socket && attempt.failed >= kLeastTries;
         });
}

bool Connector::unanswered() const {
  const auto drops = [](const Try& attempt) {
    return attempt.socket && !attempt.connected && attempt.late == TimePoint::max();
  };
  return std::any_of(tries_.begin(), tries_.end(), drops) &&
         std::all_of(tries_.begin(), tries_.end(),
                     [&](const Try& attempt) { return attempt.failed > 0 || drops(attempt); });
}

std::vector<std::string> Connector::failures() const {
  std::vector<std::string> all;
  for (const auto& attempt : tries_) {
    std::string how = attempt.how;
    if (attempt.socket && attempt.connected) how = "connected, but does not answer";
    if (attempt.socket && !attempt.connected && how.empty()) how = "timed out";
    if (!attempt.socket && how.empty()) how = "not tried";
    all.push_back(fmt::format("{} {}", format(attempt.address), how));
  }
  return all;
}

}  // namespace hora
