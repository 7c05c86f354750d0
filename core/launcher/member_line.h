// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/elastic/message.h"

#include <poll.h>

#include <optional>

namespace hora {

/// The end of a process on the socket (SOCK_SEQPACKET) on which hrun and a process of an elastic job tell
/// each other who is a member. Each message is one `elastic::MemberMessage` or `elastic::LeaderMessage`; none
/// is lost. Not thread-safe.
class MemberLine {
 public:
  /// Borrows the socket, which no program that this one starts inherits from now on.
  explicit MemberLine(int socket);

  /// Tells hrun. Waits while the socket is full, as hrun always reads. Nothing if hrun has ended.
  void send(const elastic::MemberMessage& message);
  /// Gives hrun a sign of life. Nothing if the socket is full: there is one in it.
  void beat();
  /// Takes the next message that has come, without waiting. Nothing: there is none. Throws
  /// Error(unavailable) if hrun has ended, and Error(internal) for bytes that it would not send.
  [[nodiscard]] std::optional<elastic::LeaderMessage> receive();
  [[nodiscard]] pollfd event() const { return {socket_, POLLIN, 0}; }

 private:
  const int socket_;
  Bytes buffer_;
};

}  // namespace hora
