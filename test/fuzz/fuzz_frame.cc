// SPDX-License-Identifier: Apache-2.0
// Sealed frames come back however they arrive. Of a stream that was changed, only the frames before the
// change come back; of one that was not sealed, none. Losses and announcements, as frames carry them.
#include "core/join/frame.h"

#include <algorithm>
#include <vector>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

const hora::Secret kKey{7};

/// The frames up to the first that is refused.
std::vector<hora::Frame> frames(std::span<const std::byte> bytes, std::size_t step) {
  std::vector<hora::Frame> all;
  hora::FrameReader reader{hora::Cipher(kKey)};
  try {
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      reader.feed(bytes.subspan(at, std::min(step, bytes.size() - at)));
      while (auto frame = reader.next()) all.push_back(*std::move(frame));
    }
  } catch (const hora::Error&) {
    return all;
  }
  return all;
}

/// Frames of the bytes: a kind, a length, contents, and so on.
std::vector<hora::Frame> cut(std::span<const std::byte> bytes) {
  std::vector<hora::Frame> all;
  while (bytes.size() >= 2) {
    const auto kind = static_cast<hora::FrameKind>(std::to_integer<int>(bytes[0]) % hora::kFrameKinds);
    const std::size_t length = std::min(std::to_integer<std::size_t>(bytes[1]), bytes.size() - 2);
    const auto contents = bytes.subspan(2, length);
    all.push_back({kind, hora::Bytes(contents.begin(), contents.end())});
    bytes = bytes.subspan(2 + length);
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (!frames(bytes, size + 1).empty()) std::abort();

  const auto whole = cut(bytes);
  hora::Cipher cipher(kKey);
  hora::Bytes stream;
  for (const auto& frame : whole) {
    const hora::Bytes sealed = hora::seal_frame(cipher, frame.kind, frame.bytes);
    stream.insert(stream.end(), sealed.begin(), sealed.end());
  }
  if (frames(stream, stream.size() + 1) != whole || frames(stream, 3) != whole) std::abort();
  if (stream.empty()) return 0;
  stream[size * 31 % stream.size()] ^= std::byte{1};
  const auto before = frames(stream, 64);
  if (before.size() >= whole.size() || !std::equal(before.begin(), before.end(), whole.begin())) std::abort();

  for (const auto& frame : whole) {
    try {
      static_cast<void>(hora::decode_loss(frame.bytes, 4));
    } catch (const hora::Error&) {
    }
    try {
      const auto announcement = hora::decode_announcement(frame.bytes, 64);
      const auto again = hora::encode(announcement.to, announcement.message);
      if (!(hora::decode_announcement(again, 64) == announcement)) std::abort();
    } catch (const hora::Error&) {
    }
  }
  return 0;
}
