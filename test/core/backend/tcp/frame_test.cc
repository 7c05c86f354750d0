// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/frame.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(FrameReader, PutsFramesTogetherByteByByte) {
  const Bytes contents{std::byte{1}, std::byte{2}};
  Bytes stream = encode(FrameKind::letter, contents);
  const Bytes goodbye = encode(FrameKind::goodbye, {});
  stream.insert(stream.end(), goodbye.begin(), goodbye.end());
  FrameReader reader;
  std::vector<Frame> frames;
  for (const auto byte : stream) {
    reader.feed({&byte, 1});
    while (auto frame = reader.next()) frames.push_back(*std::move(frame));
  }
  EXPECT_EQ(frames, (std::vector<Frame>{{FrameKind::letter, contents}, {FrameKind::goodbye, {}}}));
}

TEST(FrameReader, RefusesKindsAndLengthsThatDoNotExist) {
  FrameReader reader;
  reader.feed(Bytes{std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{99}});
  EXPECT_THROW(reader.next(), Error);
  FrameReader other;
  other.feed(Bytes(5, std::byte{0xFF}));
  EXPECT_THROW(other.next(), Error);
}

TEST(Loss, ComesBackAsItWasSent) {
  const Loss loss{2, {Code::aborted, "rank 2 is gone"}};
  EXPECT_EQ(decode_loss(encode(loss), 3), loss);
  EXPECT_THROW(decode_loss(encode(loss), 2), Error);
  const Loss nobodys{-1, {Code::timeout, "'grad' has been waited for"}};
  EXPECT_EQ(decode_loss(encode(nobodys), 3), nobodys);
}

}  // namespace
}  // namespace hora
