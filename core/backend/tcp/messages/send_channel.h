// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/messages/message_reader.h"
#include "core/backend/tcp/messages/message_writer.h"

#include <poll.h>

#include <map>
#include <memory>
#include <optional>

namespace hora::tcp {

/// The messages that go to one rank, over a socket that is opened from here. Small messages go as a whole, as
/// far as there is credit. All others are announced, and sent when they are asked for. Messages may be sent
/// before there is a socket. Nothing blocks. Not thread-safe.
class SendChannel {
 public:
  explicit SendChannel(int to) : to_(to), reader_(to) {}

  void send(Outgoing message, Calls& calls);

  /// Says that nothing new will be sent. Drops `told` when the receiver has heard that, or cannot be reached.
  void say_last(std::shared_ptr<void> told, Calls& calls);
  /// The receiver has left: ends what it has not asked for.
  void take_back(const Status& why, Calls& calls);

  [[nodiscard]] bool is_open() const { return static_cast<bool>(socket_); }
  /// Whether something waits to be written, or for a socket.
  [[nodiscard]] bool has_more() const { return !writer_.idle(); }
  void open(DataSocket socket, SessionKeys heads, Calls& calls);

  /// The event to wait for before the next `turn`. Only of an open one.
  [[nodiscard]] pollfd event() const;
  /// Reads and writes what goes without waiting. Throws Error when the connection is of no use any more.
  void turn(Calls& calls);

  /// Ends everything with this status. The socket stays.
  void fail(const Status& why, Calls& calls);
  /// Wakes the other side, which finds the connection closed.
  void shut_down() const;

 private:
  void hear(const MessageFrame& frame, Calls& calls);
  /// An announced message that the receiver speaks of; it is announced no more. Throws Error(internal).
  Outgoing announced(std::uint64_t number);

  int to_;
  DataSocket socket_;
  MessageReader reader_;
  MessageWriter writer_;
  std::size_t ahead_ = 0;                        // cost of whole messages that have not been taken
  std::uint64_t number_ = 0;                     // of the last message that was announced
  std::map<std::uint64_t, Outgoing> announced_;  // by number
  bool taken_back_ = false;                      // some of them
  std::shared_ptr<void> told_;                   // of who leaves
};

}  // namespace hora::tcp
