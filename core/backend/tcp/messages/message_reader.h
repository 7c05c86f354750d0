// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data_socket.h"
#include "core/backend/tcp/messages/message_frame.h"

#include <functional>
#include <optional>
#include <span>

namespace hora::tcp {

/// Cuts what comes out of a socket into frames. Elements of announced messages go straight to where they are
/// wanted. Nothing blocks. Not thread-safe.
class MessageReader {
 public:
  /// Of what a receiver says. `from`: the rank at the other end.
  explicit MessageReader(int from) : from_(from), longest_(kLongestHead), buffer_(2 * longest_) {}

  /// Where the elements of announced message `number` go: as much memory as they need. Throws Error(internal)
  /// if nobody has asked for it.
  using Destination = std::function<std::span<std::byte>(std::uint64_t number)>;
  /// Of what a sender says.
  MessageReader(int from, Destination destination)
      : from_(from),
        destination_(std::move(destination)),
        longest_(kLongestHead + kMostUnasked),
        buffer_(2 * longest_) {}

  [[nodiscard]] int from() const { return from_; }
  /// Takes the cipher with which the other side has sealed. Before the first `next`.
  void open(Cipher cipher) { cipher_ = std::move(cipher); }

  struct Received {
    MessageFrame frame;                        ///< content: its elements are where they belong
    std::span<const std::byte> elements = {};  ///< of a whole message, until the next call
  };
  /// The next frame. Nothing: that is all for the moment, or poll() will say that there is more. Throws
  /// Error(unavailable) when the other side has closed the connection, Error(internal) for what no rank would
  /// send.
  std::optional<Received> next(DataSocket& socket);

 private:
  static constexpr std::size_t kLongestHead = kSealedLengthBytes + kMostMessageFrame + kSealBytes;
  struct Content {
    std::uint64_t number;
    std::span<std::byte> left;
  };
  /// A frame that is in the buffer as a whole, if there is one; begins with the elements of a content.
  std::optional<Received> parse();
  /// Opens the head that comes next. Whether it is there.
  bool open_head();
  void begin_content(std::uint64_t number);
  /// Whether anything has come.
  bool fill(DataSocket& socket);
  /// Whether the elements are there.
  bool fill_content(DataSocket& socket);
  [[nodiscard]] std::span<const std::byte> unread() const {
    return std::span(buffer_).subspan(begin_, end_ - begin_);
  }

  int from_;
  std::optional<Cipher> cipher_;
  Destination destination_;
  std::size_t longest_;  // that is read as a whole
  Bytes buffer_;
  std::size_t begin_ = 0;  // of what has been received and not been read
  std::size_t end_ = 0;
  std::optional<std::size_t> length_;  // of the head that comes next
  std::optional<MessageFrame> frame_;  // the head, while its elements come
  std::optional<Content> content_;
};

}  // namespace hora::tcp
