// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"
#include "core/comm/messenger.h"
#include "core/join/noise.h"

namespace hora::tcp {

// The frames on the socket that one rank, the sender, has opened to another, the receiver:
//
//   sender    whole n                            elements follow; no more than the credit that is left
//             announce k                         message k waits to be asked for
//   receiver                 request k / refuse k
//   sender    content k                          elements follow
//   receiver                 credit b            so much of whole messages has been taken
//   sender    last                               nothing new will be sent: the sender leaves the job
//   receiver                 last heard          all that came before it is here
//   receiver                 last answer         the same for requests and refusals: the receiver leaves
//   sender    last answer heard                  all that came before it is here
//
// Whole messages and announcements are in the order in which they were sent. Heads are sealed, in two
// pieces: their length (2 bytes, little-endian), and what it is the length of. Elements follow as they are.

enum class MessageFrameKind : std::uint8_t {
  whole,
  announcement,
  content,
  request,
  refusal,
  credit,
  last,
  last_heard,
  last_answer,
  last_answer_heard
};
inline constexpr int kMessageFrameKinds = 10;

/// The head of a frame. A value.
struct MessageFrame {
  MessageFrameKind kind = MessageFrameKind::whole;
  std::uint64_t number = 0;  ///< of an announced message, counted by the sender; credit: see `cost`
  Envelope envelope = {};    ///< of whole and announcement
  bool operator==(const MessageFrame&) const = default;
};

inline constexpr std::size_t kSealedLengthBytes = 2 + kSealBytes;
inline constexpr std::size_t kMostMessageFrame = 1024;

/// The credit that a whole message takes: its bytes, and the cost of keeping one.
[[nodiscard]] constexpr std::size_t cost(std::size_t bytes) { return bytes + 512; }
/// How much may be on its way, or kept by the receiver, without having been asked for.
inline constexpr std::size_t kCredit = 4 << 20;

[[nodiscard]] Bytes encode(const MessageFrame& frame);
/// An encoded head as it travels.
[[nodiscard]] Bytes seal_message_head(Cipher& cipher, std::span<const std::byte> head);
/// The length of the head that follows. Throws Error(internal) if the seal does not fit, or it is over the
/// limit.
[[nodiscard]] std::size_t open_message_length(Cipher& cipher, std::span<const std::byte> sealed);
/// That head. Throws Error(internal) if the seal does not fit.
[[nodiscard]] Bytes open_message_head(Cipher& cipher, std::span<const std::byte> sealed);
/// `from`: the rank at the other end. Throws Error(internal) for bytes that no rank
/// would send.
[[nodiscard]] MessageFrame decode_message_frame(std::span<const std::byte> bytes, int from);

}  // namespace hora::tcp
