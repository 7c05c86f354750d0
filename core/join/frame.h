// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"
#include "core/comm/rank_set.h"
#include "core/join/noise.h"

#include <optional>

namespace hora {

/// The kind of content of a frame between two control sockets.
enum class FrameKind : std::uint8_t {
  message,       ///< from one engine to the other
  member,        ///< a new rank: who it is
  peer_list,     ///< rank 0: who all are; the job begins
  refusal,       ///< rank 0: you cannot join, and why
  loss,          ///< rank 0: a rank is lost, which and why
  failure,       ///< to rank 0: this rank fails, and why
  leave,         ///< this rank ends in order; what follows is the end of the stream
  beat,          ///< this rank is alive
  announcement,  ///< down the tree: a message of rank 0 to some ranks, or that there will be no more
};
inline constexpr int kFrameKinds = 9;
inline constexpr std::size_t kMostFrameBytes = std::size_t{64} << 20;

struct Frame {
  FrameKind kind = FrameKind::message;
  Bytes bytes;
  bool operator==(const Frame&) const = default;
};

// A frame on its way: its head (the length of its contents, 4 bytes, little-endian, and its kind, 1), sealed;
// then its contents, if there are any, sealed. So no length is believed before it is known whose it is, and
// frames can be neither changed, repeated, left out nor put elsewhere.

inline constexpr std::size_t kSealedHeadBytes = 5 + kSealBytes;

/// The head of a frame. A value.
struct FrameHead {
  FrameKind kind = FrameKind::message;
  std::size_t length = 0;
  /// How many bytes follow.
  [[nodiscard]] std::size_t sealed() const { return length == 0 ? 0 : length + kSealBytes; }
};

[[nodiscard]] Bytes seal_frame(Cipher& cipher, FrameKind kind, std::span<const std::byte> contents);
/// Throws Error(internal) if the seal does not fit, for a kind that does not exist, or a length over the
/// limit.
[[nodiscard]] FrameHead open_head(Cipher& cipher, std::span<const std::byte> sealed);
/// The contents that follow a head. Throws Error(internal) if the seal does not fit.
[[nodiscard]] Bytes open_contents(Cipher& cipher, std::span<const std::byte> sealed);

/// Puts frames together from pieces of a stream, however it was cut. Moves.
class FrameReader {
 public:
  explicit FrameReader(Cipher cipher) : cipher_(std::move(cipher)) {}

  void feed(std::span<const std::byte> piece);
  /// The next whole frame. Throws what opening throws; then there is no other.
  std::optional<Frame> next();

 private:
  /// The next bytes, if there are so many.
  std::optional<std::span<const std::byte>> take(std::size_t bytes);

  Cipher cipher_;
  Bytes buffer_;
  std::size_t at_ = 0;
  std::optional<FrameHead> head_;  // of the frame whose contents come next
};

// A rank and a status, as `loss` frames carry them.
struct Loss {
  int rank = 0;
  Status status;
  bool operator==(const Loss&) const = default;
};
[[nodiscard]] Bytes encode(const Loss& loss);
[[nodiscard]] Loss decode_loss(std::span<const std::byte> bytes, int size);

/// The contents of an `announcement`.
struct Announcement {
  RankSet to;
  Bytes message;  ///< empty: it is the last one
  bool operator==(const Announcement&) const = default;
};
[[nodiscard]] Bytes encode(const RankSet& to, std::span<const std::byte> message);
/// Throws Error(internal) for bytes that no rank would send.
[[nodiscard]] Announcement decode_announcement(std::span<const std::byte> bytes, int size);

}  // namespace hora
