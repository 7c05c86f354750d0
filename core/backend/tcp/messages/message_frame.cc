// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_frame.h"

#include "core/base/bytes.h"
#include "core/comm/delivery.h"

#include <fmt/format.h>

#include <array>
#include <limits>

namespace hora::tcp {
namespace {

constexpr std::uint64_t kMostDimensions = 64;
constexpr std::uint64_t kMostNumber = std::numeric_limits<int>::max();  // of a tag, of a process set

bool has_envelope(MessageFrameKind kind) {
  return kind == MessageFrameKind::whole || kind == MessageFrameKind::announcement;
}

Envelope read_envelope(Reader& in, int from) {
  Envelope envelope;
  envelope.source = from;
  envelope.tag = static_cast<int>(in.below(kMostNumber + 1, "a tag"));
  // kStateMessages travels as 0.
  envelope.process_set = static_cast<int>(in.below(kMostNumber + 1, "a process set")) + kStateMessages;
  envelope.dtype = in.enumerator<DType>(kDTypes, "a dtype");
  for (auto left = in.below(kMostDimensions + 1, "dimensions"); left > 0; --left)
    envelope.shape.push_back(in.i64());
  envelope.object = in.boolean();
  return envelope;
}

}  // namespace

Bytes encode(const MessageFrame& frame) {
  Writer out;
  out.u8(static_cast<std::uint8_t>(frame.kind)).u64(frame.number);
  if (has_envelope(frame.kind)) {
    const Envelope& envelope = frame.envelope;
    out.u64(static_cast<std::uint64_t>(envelope.tag));
    out.u64(static_cast<std::uint64_t>(envelope.process_set - kStateMessages));
    out.u8(static_cast<std::uint8_t>(envelope.dtype));
    out.u64(envelope.shape.size());
    for (const auto extent : envelope.shape) out.i64(extent);
    out.u8(envelope.object ? 1 : 0);
  }
  return out.take();
}

Bytes seal_message_head(Cipher& cipher, std::span<const std::byte> head) {
  const std::array length{static_cast<std::byte>(head.size()), static_cast<std::byte>(head.size() >> 8)};
  Bytes sealed(kSealedLengthBytes + head.size() + kSealBytes);
  cipher.seal(length, std::span(sealed).first(kSealedLengthBytes));
  cipher.seal(head, std::span(sealed).subspan(kSealedLengthBytes));
  return sealed;
}

std::size_t open_message_length(Cipher& cipher, std::span<const std::byte> sealed) {
  std::array<std::byte, 2> bytes{};
  cipher.open(sealed, bytes);
  const auto length = static_cast<std::size_t>(bytes[0]) | static_cast<std::size_t>(bytes[1]) << 8;
  if (length > kMostMessageFrame)
    throw Error(Code::internal, fmt::format("bad message: a head of {} bytes", length));
  return length;
}

Bytes open_message_head(Cipher& cipher, std::span<const std::byte> sealed) {
  Bytes head(sealed.size() - kSealBytes);
  cipher.open(sealed, head);
  return head;
}

MessageFrame decode_message_frame(std::span<const std::byte> bytes, int from) {
  Reader in(bytes);
  MessageFrame frame;
  frame.kind = in.enumerator<MessageFrameKind>(kMessageFrameKinds, "a kind of message");
  frame.number = in.u64();
  if (has_envelope(frame.kind)) {
    frame.envelope = read_envelope(in, from);
    try {
      const std::size_t elements = content_bytes(frame.envelope);
      if (frame.kind == MessageFrameKind::whole && elements > kMostUnasked)
        throw Error(Code::internal, "it is too large to come without having been asked for");
    } catch (const Error& error) {
      throw Error(Code::internal, fmt::format("bad message: {}", error.what()));
    }
  }
  in.finish();
  return frame;
}

}  // namespace hora::tcp
