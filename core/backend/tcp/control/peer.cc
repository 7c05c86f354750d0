// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/peer.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace hora::tcp {

Peer::Peer(Member who, Connection connection, TimePoint now)
    : member_(std::move(who)),
      socket_(std::move(connection.socket)),
      tree_link_(true),
      frames_(std::move(connection.session.receives)),
      heard_(now),
      sends_(std::move(connection.session.sends)) {}

Peer::Peer(Member who, Connection connection, const Member& self, TimePoint now)
    : Peer(std::move(who), std::move(connection), now) {
  tree_link_ = false;
  in_other_space_ = self.pid_space.empty() || self.pid_space != member_.pid_space;
  if (!in_other_space_ && member_.pid != self.pid)
    process_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, member_.pid, 0)));
}

Watched Peer::watched() const {
  return {member_.rank, describe(member_), static_cast<bool>(process_), in_other_space_};
}

bool Peer::process_has_ended() const {
  return process_ && await_events(process_.fd(), POLLIN, TimePoint::min());
}

std::string Peer::read(const std::function<void(Frame)>& take) {
  std::array<std::byte, 64 * 1024> buffer;
  while (true) {
    const auto got = ::recv(socket_.fd(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return {};
    if (got < 0) return fmt::format("its connection broke: {}", std::strerror(errno));
    if (got == 0) return "its connection closed without a graceful leave";
    heard_ = Clock::now();
    try {
      frames_.feed(std::span(buffer).first(static_cast<std::size_t>(got)));
      while (auto frame = frames_.next()) take(*std::move(frame));
    } catch (const Error& error) {
      return fmt::format("it sent nonsense: {}", error.what());
    }
  }
}

void Peer::queue(FrameKind kind, std::span<const std::byte> contents) {
  if (open_) out_.push_back(seal_frame(sends_, kind, contents));
}

void Peer::flush() {
  while (open_ && !out_.empty()) {
    const Bytes& front = out_.front();
    const auto sent =
        ::send(socket_.fd(), front.data() + sent_, front.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (sent < 0) return end_writing();  // half a frame may have gone: nothing can follow it
    sent_ += static_cast<std::size_t>(sent);
    if (sent_ < front.size()) return;
    out_.pop_front();
    sent_ = 0;
  }
}

void Peer::end_writing() {
  out_.clear();
  sent_ = 0;
  open_ = false;
  ::shutdown(socket_.fd(), SHUT_WR);
}

void Peer::close() {
  open_ = false;
  out_.clear();
  socket_ = Descriptor();
}

}  // namespace hora::tcp
