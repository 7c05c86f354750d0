// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/message_frame.h"

#include <gtest/gtest.h>

#include <limits>

namespace hora {
namespace {

std::span<const std::byte> contents(const Bytes& bytes) {
  return std::span(bytes).subspan(kFrameLengthBytes);
}

TEST(MessageFrame, ComesBackAsItWasSent) {
  const Envelope envelope{3, std::numeric_limits<int>::max(), DType::bfloat16, {4, 0, 7}, true};
  for (int kind = 0; kind < kMessageFrameKinds; ++kind) {
    MessageFrame frame{static_cast<MessageFrameKind>(kind), 12};
    if (kind < 2) frame.envelope = envelope;
    const Bytes bytes = encode(frame);
    EXPECT_EQ(static_cast<std::size_t>(bytes[0]) + 256 * static_cast<std::size_t>(bytes[1]),
              bytes.size() - 2);
    EXPECT_EQ(decode_message_frame(contents(bytes), 3), frame);
  }
}

TEST(MessageFrame, TheLongestFits) {
  const Envelope envelope{0, 0, DType::uint8, std::vector<std::int64_t>(64, 0)};
  EXPECT_LE(encode({MessageFrameKind::whole, ~std::uint64_t{0}, envelope}).size(), kMostMessageFrame);
}

TEST(MessageFrame, RefusesWhatNoRankSends) {
  const auto refused = [](Envelope envelope) {
    const Bytes bytes = encode({MessageFrameKind::whole, 0, std::move(envelope)});
    EXPECT_THROW(static_cast<void>(decode_message_frame(contents(bytes), 0)), Error);
  };
  refused({0, -1, DType::uint8, {}});
  refused({0, 0, static_cast<DType>(kDTypes), {}});
  refused({0, 0, DType::uint8, {-1}});
  refused({0, 0, DType::uint8, {std::int64_t{1} << 40, std::int64_t{1} << 40}});
  refused({0, 0, DType::uint8, std::vector<std::int64_t>(65, 0)});
  refused({0, 0, DType::uint8, {static_cast<std::int64_t>(kMostUnasked) + 1}});
  const Bytes bytes = encode({MessageFrameKind::credit, 1});
  EXPECT_THROW(static_cast<void>(decode_message_frame(contents(bytes).first(1), 0)), Error);
}

}  // namespace
}  // namespace hora
