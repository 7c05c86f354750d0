// SPDX-License-Identifier: Apache-2.0
#include "core/join/frame.h"

#include "core/base/bytes.h"

#include <fmt/format.h>

#include <array>

namespace hora {
namespace {

constexpr std::size_t kMostMessageBytes = 1 << 16;
constexpr std::size_t kHeadBytes = kSealedHeadBytes - kSealBytes;

}  // namespace

Bytes seal_frame(Cipher& cipher, FrameKind kind, std::span<const std::byte> contents) {
  if (contents.size() > kMostFrameBytes) {
    throw Error(Code::internal, fmt::format("a control message of {} bytes is over the limit of {}",
                                            contents.size(), kMostFrameBytes));
  }
  std::array<std::byte, kHeadBytes> head{};
  for (std::size_t i = 0; i < 4; ++i) head[i] = static_cast<std::byte>(contents.size() >> (8 * i));
  head[4] = static_cast<std::byte>(kind);
  Bytes frame(kSealedHeadBytes + FrameHead{kind, contents.size()}.sealed());
  cipher.seal(head, std::span(frame).first(kSealedHeadBytes));
  if (!contents.empty()) cipher.seal(contents, std::span(frame).subspan(kSealedHeadBytes));
  return frame;
}

FrameHead open_head(Cipher& cipher, std::span<const std::byte> sealed) {
  std::array<std::byte, kHeadBytes> head{};
  cipher.open(sealed, head);
  std::size_t length = 0;
  for (std::size_t i = 0; i < 4; ++i) length |= static_cast<std::size_t>(head[i]) << (8 * i);
  const auto kind = static_cast<int>(head[4]);
  if (length > kMostFrameBytes || kind >= kFrameKinds)
    throw Error(Code::internal, fmt::format("bad frame: kind {} of {} bytes", kind, length));
  return {static_cast<FrameKind>(kind), length};
}

Bytes open_contents(Cipher& cipher, std::span<const std::byte> sealed) {
  if (sealed.empty()) return {};
  Bytes contents(sealed.size() - kSealBytes);
  cipher.open(sealed, contents);
  return contents;
}

void FrameReader::feed(std::span<const std::byte> piece) {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(at_));
  at_ = 0;
  buffer_.insert(buffer_.end(), piece.begin(), piece.end());
}

std::optional<Frame> FrameReader::next() {
  if (!head_) {
    const auto head = take(kSealedHeadBytes);
    if (!head) return std::nullopt;
    head_ = open_head(cipher_, *head);
  }
  const auto contents = take(head_->sealed());
  if (!contents) return std::nullopt;
  Frame frame{head_->kind, open_contents(cipher_, *contents)};
  head_.reset();
  return frame;
}

std::optional<std::span<const std::byte>> FrameReader::take(std::size_t bytes) {
  const std::span<const std::byte> left(buffer_.data() + at_, buffer_.size() - at_);
  if (left.size() < bytes) return std::nullopt;
  at_ += bytes;
  return left.first(bytes);
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

Bytes encode(const RankSet& to, std::span<const std::byte> message) {
  Writer out;
  write(out, to);
  out.u64(message.size()).raw(message);
  return out.take();
}

Announcement decode_announcement(std::span<const std::byte> bytes, int size) {
  Reader in(bytes);
  Announcement announcement;
  announcement.to = read_rank_set(in, size);
  const auto message = in.raw(in.u64());
  in.finish();
  announcement.message.assign(message.begin(), message.end());
  return announcement;
}

}  // namespace hora
