// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/messages/message_frame.h"
#include "core/backend/tcp/messages/message_writer.h"

#include <poll.h>

#include <map>
#include <memory>

namespace hora::tcp {

/// A message that has been asked for, and where it goes.
struct Reception {
  Envelope envelope;
  std::byte* memory = nullptr;
  Incoming wanted;
};

/// The messages that come from one rank, over a socket that was opened there: the credit, the elements that
/// have been asked for, and the answers of this rank. Another class reads the frames (IncomingConnections).
/// Nothing blocks. Not thread-safe.
class ReceiveChannel {
 public:
  /// `cipher`: what the other side opens with.
  ReceiveChannel(DataSocket socket, Cipher cipher) : socket_(std::move(socket)) {
    writer_.open(std::move(cipher));
  }

  /// For the thread that reads. `flush` writes to it.
  [[nodiscard]] DataSocket& socket() { return socket_; }

  /// A whole message of so many bytes has come, or an announcement. Throw Error(internal) if there was no
  /// credit for it, or its number is not the next.
  void hear_whole(std::size_t bytes);
  void hear_announcement(std::uint64_t number);

  /// Asks for the elements of an announced message, or says that nobody wants them.
  void request(std::uint64_t number, Reception reception, Calls& calls);
  void refuse(std::uint64_t number, Calls& calls);
  /// Any other frame has come. Content: its elements are where they belong, and their receive is done. Last:
  /// the sender learns that it is here.
  void hear(const MessageFrame& frame, Calls& calls);
  /// Says that nothing new will be asked for or refused. Drops `told` when the sender has heard that, or
  /// cannot be reached.
  void say_last(std::shared_ptr<void> told, Calls& calls);
  /// A whole message of so many bytes has been taken.
  void give_credit(std::size_t bytes, Calls& calls);

  /// Where the elements of a message go. Throws Error(internal) if nobody has asked for it.
  [[nodiscard]] std::span<std::byte> destination(std::uint64_t number) const;

  /// Whether something waits to be written.
  [[nodiscard]] bool has_more() const { return !writer_.idle(); }
  /// The event to wait for before the next `flush`. Only if something waits.
  [[nodiscard]] pollfd event() const { return {socket_.fd(), POLLOUT, 0}; }
  void flush(Calls& calls) { writer_.flush(socket_, calls); }
  /// Ends everything with this status. The socket stays.
  void fail(const Status& why, Calls& calls);
  /// Wakes the other side, which finds the connection closed.
  void shut_down() const;

 private:
  void write(const MessageFrame& frame, Calls& calls);
  void finish(std::uint64_t number, Calls& calls);
  void drop_told(Calls& calls);

  DataSocket socket_;
  MessageWriter writer_;
  std::size_t used_ = 0;                         // credit, as far as this side knows
  std::size_t taken_ = 0;                        // of it, of which the sender does not know
  std::uint64_t number_ = 0;                     // of the last announcement
  std::map<std::uint64_t, Reception> expected_;  // by number
  std::shared_ptr<void> told_;                   // of who leaves
};

}  // namespace hora::tcp
