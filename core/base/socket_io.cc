// SPDX-License-Identifier: Apache-2.0
#include "core/base/socket_io.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace hora {

int milliseconds_until(TimePoint deadline) {
  if (deadline == TimePoint::max()) return -1;
  const TimePoint now = Clock::now();
  if (deadline <= now) return 0;  // also where the difference would overflow
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::min<std::int64_t>(left, 1'000'000'000));
}

namespace {

[[noreturn]] void fail(const char* what) {
  const int error = errno;
  throw Error(Code::unavailable,
              fmt::format("the connection broke while {}: {}", what, std::strerror(error)));
}

void await_or_throw(int fd, short events, TimePoint deadline) {
  if (!await_events(fd, events, deadline))
    throw Error(Code::timeout, "the other side did not answer in time");
}

}  // namespace

bool await_events(int fd, short events, TimePoint deadline) {
  pollfd one{fd, events, 0};
  for (;;) {
    const int ready = ::poll(&one, 1, milliseconds_until(deadline));
    if (ready > 0) return true;
    if (ready == 0 && Clock::now() >= deadline) return false;
    if (ready < 0 && errno != EINTR) return true;  // the call that follows reports it
  }
}

void read_exactly(int fd, std::span<std::byte> bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    await_or_throw(fd, POLLIN, deadline);
    const auto got = ::recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got == 0) throw Error(Code::unavailable, "the other side closed the connection");
    if (got > 0) bytes = bytes.subspan(static_cast<std::size_t>(got));
    if (got < 0 && errno != EAGAIN && errno != EINTR) fail("reading");
  }
}

void write_all(int fd, std::span<const std::byte> bytes, TimePoint deadline) {
  while (!bytes.empty()) {
    await_or_throw(fd, POLLOUT, deadline);
    const auto sent = ::send(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) fail("writing");
  }
}

}  // namespace hora
