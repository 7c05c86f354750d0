// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/messages/message_reader.h"
#include "core/backend/tcp/messages/message_writer.h"

#include <poll.h>

#include <map>
#include <memory>
#include <optional>

namespace hora::tcp {

/// The messages that go to one rank, over a socket that this rank opens. Small messages are sent whole, as
/// long as there is credit. All other messages are announced, and sent when the receiver asks for them.
/// Messages may be sent before there is a socket. No function blocks. Not thread-safe.
class SendChannel {
 public:
  explicit SendChannel(int to) : to_(to), reader_(to) {}

  void send(Outgoing message, Calls& calls);

  /// Tells the receiver that nothing new will be sent. Drops `told` when the receiver has confirmed that, or
  /// cannot be reached.
  void say_last(std::shared_ptr<void> told, Calls& calls);
  /// Ends the announced messages that the receiver has not asked for, because it has left. `why`: their
  /// status.
  void take_back(const Status& why, Calls& calls);

  [[nodiscard]] bool is_open() const { return static_cast<bool>(socket_); }
  /// Whether something waits to be written, or for a socket.
  [[nodiscard]] bool has_more() const { return !writer_.idle(); }
  /// Gives the channel its socket. `heads`: the keys that seal the heads of frames.
  void open(DataSocket socket, SessionKeys heads, Calls& calls);

  /// The event to wait for before the next `turn`. The channel must be open.
  [[nodiscard]] pollfd event() const;
  /// Reads and writes what is possible without waiting. Throws Error when the connection is broken.
  void turn(Calls& calls);

  /// Ends all messages with this status. The socket stays.
  void fail(const Status& why, Calls& calls);
  /// Shuts the socket down, so the other side finds the connection closed.
  void shut_down() const;

 private:
  void hear(const MessageFrame& frame, Calls& calls);
  /// Removes and returns the announced message of this number, which the receiver has named. Throws
  /// Error(internal) if there is none.
  Outgoing announced(std::uint64_t number);

  int to_;
  DataSocket socket_;
  MessageReader reader_;
  MessageWriter writer_;
  std::size_t ahead_ = 0;                        // the cost of whole messages that the receiver has not taken
  std::uint64_t number_ = 0;                     // of the last announced message
  std::map<std::uint64_t, Outgoing> announced_;  // by number
  bool taken_back_ = false;                      // whether `take_back` was called
  std::shared_ptr<void> told_;                   // the `told` of `say_last`, until the receiver confirms
};

}  // namespace hora::tcp
