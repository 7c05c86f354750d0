// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"
#include "core/comm/messenger.h"

namespace hora {

/// What is said on the socket that one rank, the sender, has opened to another, the receiver.
enum class MessageFrameKind : std::uint8_t {
  whole,         ///< from the sender: a message; its elements follow
  announcement,  ///< from the sender: a message that the receiver has to ask for
  content,       ///< from the sender: the elements of an announced message follow
  request,       ///< from the receiver: send the elements of an announced message
  refusal,       ///< from the receiver: an announced message is not wanted
  credit         ///< from the receiver: so many bytes of whole messages have been taken
};
inline constexpr int kMessageFrameKinds = 6;

/// The head of a frame. A value.
struct MessageFrame {
  MessageFrameKind kind = MessageFrameKind::whole;
  std::uint64_t number = 0;  ///< of an announced message, counted by the sender; credit: bytes
  Envelope envelope = {};    ///< of whole and announcement
  bool operator==(const MessageFrame&) const = default;
};

inline constexpr std::size_t kFrameLengthBytes = 2;
inline constexpr std::size_t kMostMessageFrame = 1024;

/// The bytes of a message's elements. Throws Error(invalid_argument) if no tensor has that many.
[[nodiscard]] std::size_t content_bytes(const Envelope& envelope);

/// The length of what follows (2 bytes, little-endian), and that.
[[nodiscard]] Bytes encode(const MessageFrame& frame);
/// What follows the length. `from`: the rank at the other end. Throws Error(internal) for bytes that no rank
/// would send.
[[nodiscard]] MessageFrame decode_message_frame(std::span<const std::byte> bytes, int from);

}  // namespace hora
