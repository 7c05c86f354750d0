// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/frame.h"

#include "core/base/bytes.h"

#include <fmt/format.h>

namespace hora {
namespace {

constexpr std::size_t kMostMessageBytes = 1 << 16;

}  // namespace

Bytes encode(FrameKind kind, std::span<const std::byte> contents) {
  if (contents.size() > kMostFrameBytes) {
    throw Error(Code::internal, fmt::format("a control message of {} bytes is over the limit of {}",
                                            contents.size(), kMostFrameBytes));
  }
  Bytes frame;
  frame.reserve(kFrameHeadBytes + contents.size());
  for (int shift = 0; shift < 32; shift += 8)
    frame.push_back(static_cast<std::byte>(contents.size() >> shift));
  frame.push_back(static_cast<std::byte>(kind));
  frame.insert(frame.end(), contents.begin(), contents.end());
  return frame;
}

void FrameReader::feed(std::span<const std::byte> piece) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  buffer_.insert(buffer_.end(), piece.begin(), piece.end());
}

std::optional<Frame> FrameReader::next() {
  const std::span<const std::byte> left(buffer_.data() + at_, buffer_.size() - at_);
  if (left.size() < kFrameHeadBytes) return std::nullopt;
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length |= static_cast<std::size_t>(left[i]) << (8 * i);
  const auto kind = static_cast<int>(left[4]);
  if (length > kMostFrameBytes || kind >= kFrameKinds) {
    throw Error(Code::internal, fmt::format("bad frame: kind {} of {} bytes", kind, length));
  }
  if (left.size() < kFrameHeadBytes + length) return std::nullopt;
  const auto contents = left.subspan(kFrameHeadBytes, length);
  at_ += kFrameHeadBytes + length;
  return Frame{static_cast<FrameKind>(kind), Bytes(contents.begin(), contents.end())};
}

Bytes encode(const Loss& loss) {
  Writer out;
  out.u64(static_cast<std::uint64_t>(loss.rank + 1)).u8(static_cast<std::uint8_t>(loss.status.code));
  out.string(loss.status.message.substr(0, kMostMessageBytes));
  return out.take();
}

Loss decode_loss(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  Loss loss;
  loss.rank = static_cast<int>(in.below(static_cast<std::uint64_t>(size) + 1, "a rank")) - 1;
  loss.status.code = in.enumerator<Code>(kCodes, "a code");
  loss.status.message = in.string(kMostMessageBytes);
  in.finish();
  return loss;
}

}  // namespace hora
