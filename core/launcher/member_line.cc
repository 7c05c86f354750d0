// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/member_line.h"

#include <hora/status.h>

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

namespace hora {
namespace {

constexpr std::size_t kMostLeaderBytes = std::size_t{256} << 10;  // as much as such a socket takes at once

}  // namespace

MemberLine::MemberLine(int socket) : socket_(socket), buffer_(kMostLeaderBytes) {
  if (::fcntl(socket_, F_SETFD, FD_CLOEXEC) != 0)
    throw Error(Code::invalid_argument, "HORA_MEMBER_FD is no open socket: start the ranks with hrun");
}

void MemberLine::send(const elastic::MemberMessage& message) {
  const Bytes bytes = encode(message);
  while (::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

void MemberLine::beat() {
  const Bytes bytes = encode(elastic::MemberMessage{.kind = elastic::MemberMessage::Kind::beat});
  ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

std::optional<elastic::LeaderMessage> MemberLine::receive() {
  const auto got = ::recv(socket_, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
  if (got <= 0) throw Error(Code::unavailable, "hrun has ended, which knows the members of this job");
  return elastic::decode_leader_message(std::span(buffer_).first(static_cast<std::size_t>(got)));
}

}  // namespace hora
