// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/descriptor.h"
#include "core/elastic/message.h"

#include <sys/types.h>

#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

struct pollfd;

namespace hora::hrun {

/// The next message of a socket (SOCK_SEQPACKET), as recv() returns it, without a wait. A process that ends
/// with unread messages causes one error at the other end, before the messages that it sent; it is passed
/// over.
[[nodiscard]] ssize_t receive_whole(int socket, std::span<std::byte> space);

/// hrun's end of the line to one process of an elastic job. The line is a socket (SOCK_SEQPACKET), which the
/// process finds by HORA_MEMBER_FD. Each message of the process is one elastic::MemberMessage, and each
/// message of hrun one elastic::LeaderMessage. Nothing blocks, and no message is lost: messages that the
/// socket does not take wait in a queue. Not thread-safe. Moves.
class MemberLine {
 public:
  /// No line: it is closed.
  MemberLine() = default;
  explicit MemberLine(Descriptor socket) : socket_(std::move(socket)) {}

  [[nodiscard]] bool is_open() const { return static_cast<bool>(socket_); }
  [[nodiscard]] int fd() const { return socket_.fd(); }
  /// Whether the line was closed because of this process: it sent bytes that are no message, or it has left
  /// kMostQueued messages unread. Such a process must be ended.
  [[nodiscard]] bool broken() const { return !trouble_.empty(); }
  /// Why, for the user.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }

  /// Sends the message, or queues it. A process that has closed its end gets nothing.
  void send(const elastic::LeaderMessage& message);
  /// Sends queued messages, as many as the socket takes.
  void flush();
  /// The next message of the process, if one is here. `space` is for its bytes.
  [[nodiscard]] std::optional<elastic::MemberMessage> receive(std::span<std::byte> space);
  void close();

  /// Adds the socket, if messages are queued.
  void watch(std::vector<pollfd>& events) const;

  static constexpr std::size_t kMostQueued = 256;

 private:
  void break_off(const char* why);

  Descriptor socket_;
  std::deque<Bytes> queue_;
  bool heard_ = true;  // the process has not closed its end
  std::string trouble_;
};

}  // namespace hora::hrun
