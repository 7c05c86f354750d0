// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/messages/message_frame.h"
#include "core/backend/tcp/messages/message_writer.h"

#include <poll.h>

#include <map>
#include <memory>

namespace hora::tcp {

/// An announced message that this rank has asked for, and the memory for its elements.
struct Reception {
  Envelope envelope;
  std::byte* memory = nullptr;
  Incoming wanted;
};

/// The messages that come from one rank, over a socket that the sender has opened. It counts the credit,
/// keeps the messages that this rank has asked for, and writes this rank's answers. IncomingConnections reads
/// the frames. No function blocks. Not thread-safe.
class ReceiveChannel {
 public:
  /// `cipher`: seals the heads of the frames that this rank writes.
  ReceiveChannel(DataSocket socket, Cipher cipher) : socket_(std::move(socket)) {
    writer_.open(std::move(cipher));
  }

  /// The socket, for the thread that reads from it. `flush` writes to it.
  [[nodiscard]] DataSocket& socket() { return socket_; }

  /// Notes that a whole message of so many bytes, or an announcement, has come. They throw Error(internal) if
  /// there was no credit for the message, or if the number is not the next one.
  void hear_whole(std::size_t bytes);
  void hear_announcement(std::uint64_t number);

  /// `request` asks for the elements of an announced message. `refuse` says that no receive wants them.
  void request(std::uint64_t number, Reception reception, Calls& calls);
  void refuse(std::uint64_t number, Calls& calls);
  /// Handles a frame of any other kind. `content`: the elements are in the memory of their receive, which is
  /// done. `last`: the sender gets a confirmation. `last_answer_heard`: drops the `told` of `say_last`.
  void hear(const MessageFrame& frame, Calls& calls);
  /// Tells the sender that this rank will ask for nothing more and refuse nothing more. Drops `told` when the
  /// sender has confirmed that, or cannot be reached.
  void say_last(std::shared_ptr<void> told, Calls& calls);
  /// Notes that a receive has taken a whole message of so many bytes. Returns credit to the sender from time
  /// to time.
  void give_credit(std::size_t bytes, Calls& calls);

  /// The memory for the elements of a message. Throws Error(internal) if no receive has asked for it.
  [[nodiscard]] std::span<std::byte> destination(std::uint64_t number) const;

  /// Whether something waits to be written.
  [[nodiscard]] bool has_more() const { return !writer_.idle(); }
  /// The event to wait for before the next `flush`. Only if `has_more`.
  [[nodiscard]] pollfd event() const { return {socket_.fd(), POLLOUT, 0}; }
  void flush(Calls& calls) { writer_.flush(socket_, calls); }
  /// Ends all messages with this status. The socket stays.
  void fail(const Status& why, Calls& calls);
  /// Shuts the socket down, so the other side finds the connection closed.
  void shut_down() const;

 private:
  void write(const MessageFrame& frame, Calls& calls);
  void finish(std::uint64_t number, Calls& calls);
  void drop_told(Calls& calls);

  DataSocket socket_;
  MessageWriter writer_;
  std::size_t used_ = 0;                         // the credit that the sender has used
  std::size_t taken_ = 0;                        // the part of `used_` that was taken, but not yet returned
  std::uint64_t number_ = 0;                     // the number of the last announcement
  std::map<std::uint64_t, Reception> expected_;  // by number
  std::shared_ptr<void> told_;                   // the `told` of `say_last`, until the sender confirms
};

}  // namespace hora::tcp
