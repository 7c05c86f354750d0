// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/member_line.h"

#include <hora/status.h>

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>

namespace hora::hrun {

ssize_t receive_whole(int socket, std::span<std::byte> space) {
  const auto got = ::recv(socket, space.data(), space.size(), MSG_DONTWAIT);
  if (got >= 0 || errno != ECONNRESET) return got;
  return ::recv(socket, space.data(), space.size(), MSG_DONTWAIT);
}

void MemberLine::send(const elastic::LeaderMessage& message) {
  if (!is_open() || !heard_) return;
  queue_.push_back(elastic::encode(message));
  flush();
  if (queue_.size() > kMostQueued) break_off("it reads no messages of hrun");
}

void MemberLine::flush() {
  while (!queue_.empty()) {
    const Bytes& next = queue_.front();
    if (::send(fd(), next.data(), next.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
      if (errno == EAGAIN || errno == EINTR) return;
      if (errno == EMSGSIZE) return break_off("a message is too long for its socket");
      heard_ = false;  // messages that it sent before are still to be received
      return queue_.clear();
    }
    queue_.pop_front();
  }
}

std::optional<elastic::MemberMessage> MemberLine::receive(std::span<std::byte> space) {
  if (!is_open()) return std::nullopt;
  const auto got = receive_whole(fd(), space);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (got <= 0) {
    close();
    return std::nullopt;
  }
  try {
    return elastic::decode_member_message(space.first(static_cast<std::size_t>(got)));
  } catch (const Error&) {
    break_off("it has sent bytes that are no message");
    return std::nullopt;
  }
}

void MemberLine::close() {
  socket_ = Descriptor();
  queue_.clear();
}

void MemberLine::watch(std::vector<pollfd>& events) const {
  if (!queue_.empty()) events.push_back({fd(), POLLOUT, 0});
}

void MemberLine::break_off(const char* why) {
  close();
  trouble_ = why;
}

}  // namespace hora::hrun
