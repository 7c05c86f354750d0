// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/control.h"

#include <optional>

namespace hora {

/// What a frame between two control sockets carries.
enum class FrameKind : std::uint8_t {
  letter,   ///< from one engine to the other
  member,   ///< a new rank: who it is
  roster,   ///< rank 0: who all are; the job begins
  refusal,  ///< rank 0: you cannot join, and why
  loss,     ///< rank 0: a rank is lost, which and why
  failure,  ///< to rank 0: this rank fails, and why
  goodbye,  ///< this rank ends in order; what follows is the end of the stream
  beat,     ///< this rank is alive
};
inline constexpr int kFrameKinds = 8;
inline constexpr std::size_t kFrameHeadBytes = 5;
inline constexpr std::size_t kMostFrameBytes = std::size_t{64} << 20;

struct Frame {
  FrameKind kind = FrameKind::letter;
  Bytes bytes;
  bool operator==(const Frame&) const = default;
};

/// The frame's bytes: the length of its contents (4, little-endian), its kind (1), the contents.
[[nodiscard]] Bytes encode(FrameKind kind, std::span<const std::byte> contents);

/// Puts frames together from pieces of a stream, however it was cut. A value.
class FrameReader {
 public:
  void feed(std::span<const std::byte> piece);
  /// The next whole frame. Throws Error(internal) for a kind that does not exist or a length over the limit.
  std::optional<Frame> next();

 private:
  Bytes buffer_;
  std::size_t at_ = 0;
};

// A rank and a status, as `loss` frames carry them.
struct Loss {
  int rank = 0;
  Status status;
  bool operator==(const Loss&) const = default;
};
[[nodiscard]] Bytes encode(const Loss& loss);
[[nodiscard]] Loss decode_loss(std::span<const std::byte> bytes, int size);

}  // namespace hora
