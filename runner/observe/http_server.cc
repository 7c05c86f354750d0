// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/http_server.h"

#include <hora/status.h>

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace hora::hrun {
namespace {

constexpr std::chrono::seconds kUntilThereMayBeMore{1};

bool not_now() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

HttpServer::HttpServer(Descriptor listener, For whom) : listener_(std::move(listener)), whom_(whom) {}

void HttpServer::watch(std::vector<pollfd>& events) const {
  if (visitors_.size() < kRoom && closed_until_ == TimePoint()) events.push_back({listener_.fd(), POLLIN, 0});
  for (const auto& visitor : visitors_) {
    const bool writes = !visitor.answer.empty();
    if (writes || !visitor.waits)
      events.push_back({visitor.socket.fd(), static_cast<short>(writes ? POLLOUT : POLLIN), 0});
  }
}

TimePoint HttpServer::next() const {
  TimePoint next = closed_until_ == TimePoint() ? TimePoint::max() : closed_until_;
  for (const auto& visitor : visitors_)
    next = std::min(next, visitor.gone ? TimePoint::min() : visitor.until);
  return next;
}

std::vector<HttpServer::Visit> HttpServer::turn(TimePoint now) {
  std::vector<Visit> visits;
  if (now >= closed_until_) closed_until_ = TimePoint();
  let_in(now);
  for (auto& visitor : visitors_) {
    HttpRequest request;
    if (!visitor.waits && read(visitor, request, now)) visits.push_back({visitor.number, std::move(request)});
    write(visitor);
  }
  std::erase_if(visitors_, [&](const Visitor& visitor) { return visitor.gone || now >= visitor.until; });
  return visits;
}

void HttpServer::answer(std::uint64_t visitor, const HttpResponse& response, TimePoint now) {
  const auto found = std::find_if(visitors_.begin(), visitors_.end(),
                                  [&](const Visitor& one) { return one.number == visitor; });
  if (found == visitors_.end()) return;
  found->waits = true;
  found->answer = encode(response);
  found->until = now + kIdleTimeout;
  write(*found);
}

void HttpServer::let_in(TimePoint now) {
  while (visitors_.size() < kRoom && closed_until_ == TimePoint()) {
    Descriptor socket(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket && (errno == ECONNABORTED || errno == EINTR)) continue;
    if (!socket && errno != EAGAIN) closed_until_ = now + kUntilThereMayBeMore;
    if (!socket) return;
    if (may_enter(socket.fd())) visitors_.push_back({++numbers_, std::move(socket), now + kIdleTimeout});
  }
}

bool HttpServer::may_enter(int socket) const {
  if (whom_ == For::everybody) return true;
  ucred who{};
  socklen_t length = sizeof who;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &length) == 0 &&
         (who.uid == ::geteuid() || who.uid == 0);
}

bool HttpServer::read(Visitor& visitor, HttpRequest& request, TimePoint now) {
  std::array<char, 1024> buffer{};
  const auto got = ::recv(visitor.socket.fd(), buffer.data(), buffer.size(), 0);
  if (got < 0 && not_now()) return false;
  visitor.gone = got <= 0;
  if (visitor.gone) return false;
  visitor.asked.append(buffer.data(), static_cast<std::size_t>(got));
  try {
    const auto whole = parse_request(visitor.asked);
    if (!whole) return false;
    request = *whole;
    visitor.waits = true;
    visitor.until = now + kIdleTimeout;
    return true;
  } catch (const Error& error) {
    answer(visitor.number, {400, "text/plain", std::string(error.what()) + "\n"}, now);
    return false;
  }
}

void HttpServer::write(Visitor& visitor) {
  if (visitor.answer.empty()) return;
  const auto sent = ::send(visitor.socket.fd(), visitor.answer.data(), visitor.answer.size(), MSG_NOSIGNAL);
  if (sent < 0 && not_now()) return;
  if (sent > 0) visitor.answer.erase(0, static_cast<std::size_t>(sent));
  visitor.gone = sent <= 0 || visitor.answer.empty();
}

}  // namespace hora::hrun
