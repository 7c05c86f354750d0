// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"
#include "core/comm/messenger.h"

namespace hora {

// What is said on the socket that one rank, the sender, has opened to another, the receiver:
//
//   sender    whole n                            elements follow; no more than the credit that is left
//             announce k                         message k waits to be asked for
//   receiver                 request k / refuse k
//   sender    content k                          elements follow
//   receiver                 credit b            so much of whole messages has been taken
//
// Whole messages and announcements are in the order in which they were sent.

enum class MessageFrameKind : std::uint8_t { whole, announcement, content, request, refusal, credit };
inline constexpr int kMessageFrameKinds = 6;

/// The head of a frame. A value.
struct MessageFrame {
  MessageFrameKind kind = MessageFrameKind::whole;
  std::uint64_t number = 0;  ///< of an announced message, counted by the sender; credit: see `cost`
  Envelope envelope = {};    ///< of whole and announcement
  bool operator==(const MessageFrame&) const = default;
};

inline constexpr std::size_t kFrameLengthBytes = 2;
inline constexpr std::size_t kMostMessageFrame = 1024;

/// What a whole message takes of the credit: its bytes, and what it costs to keep one.
[[nodiscard]] constexpr std::size_t cost(std::size_t bytes) { return bytes + 512; }
/// How much may be on its way, or kept by the receiver, without having been asked for.
inline constexpr std::size_t kCredit = 4 << 20;

/// The length of what follows (2 bytes, little-endian), and that.
[[nodiscard]] Bytes encode(const MessageFrame& frame);
/// What follows the length. `from`: the rank at the other end. Throws Error(internal) for bytes that no rank
/// would send.
[[nodiscard]] MessageFrame decode_message_frame(std::span<const std::byte> bytes, int from);

}  // namespace hora
