// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/answering.h"

#include "core/base/thread.h"
#include "core/launcher/launcher_line.h"

#include <hora/status.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace hora {

Answering::Answering(std::optional<int> socket, std::function<Reply(const Question&)> answer)
    : socket_(socket.value_or(-1)), answer_(std::move(answer)) {
  if (socket_ < 0 || ::fcntl(socket_, F_SETFD, FD_CLOEXEC) != 0) return;
  remember_launcher_line(socket_);
  say(socket_, encode(Reply{0, ReplyKind::arrived}));
  thread_ = start_thread("answers hrun", [this] { listen(); });
}

Answering::~Answering() {
  if (!thread_.joinable()) return;
  ending_.ring();
  thread_.join();
  say(socket_, encode(Reply{0, ReplyKind::left}));
}

void Answering::listen() {
  std::array<pollfd, 2> events{ending_.event(), pollfd{socket_, POLLIN, 0}};
  while (true) {
    ::poll(events.data(), events.size(), -1);
    if (events[0].revents != 0) return;
    if (events[1].revents != 0 && !take_question()) return;
  }
}

/// Answers one, if there is one; false if none will come any more: the launcher has ended, or is none.
bool Answering::take_question() {
  std::array<std::byte, kMostQuestionBytes> buffer;
  const auto got = ::recv(socket_, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (got <= 0) return false;
  try {
    const Question question = decode_question(std::span(buffer).first(static_cast<std::size_t>(got)));
    say(socket_, encode(answer_(question)));
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace hora
