// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/messages/message_frame.h"

#include "test/support/sessions.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace hora::tcp {
namespace {

TEST(MessageFrame, ComesBackAsItWasSent) {
  const Envelope envelope{3,    std::numeric_limits<int>::max(),    DType::bfloat16, {4, 0, 7},
                          true, std::numeric_limits<int>::max() - 1};
  for (int kind = 0; kind < kMessageFrameKinds; ++kind) {
    MessageFrame frame{static_cast<MessageFrameKind>(kind), 12};
    if (kind < 2) frame.envelope = envelope;
    const Bytes bytes = encode(frame);
    EXPECT_EQ(decode_message_frame(bytes, 3), frame);
  }
  const MessageFrame state{MessageFrameKind::whole, 0, {3, 0, DType::uint8, {4}, false, kStateMessages}};
  EXPECT_EQ(decode_message_frame(encode(state), 3), state);
}

TEST(MessageFrame, TheLongestFits) {
  const Envelope envelope{0, 0, DType::uint8, std::vector<std::int64_t>(64, 0)};
  EXPECT_LE(encode({MessageFrameKind::whole, ~std::uint64_t{0}, envelope}).size(), kMostMessageFrame);
}

TEST(MessageFrame, RefusesWhatNoRankSends) {
  const auto refused = [](Envelope envelope) {
    const Bytes bytes = encode({MessageFrameKind::whole, 0, std::move(envelope)});
    EXPECT_THROW(static_cast<void>(decode_message_frame(bytes, 0)), Error);
  };
  refused({0, -1, DType::uint8, {}});
  refused({0, 0, static_cast<DType>(kDTypes), {}});
  refused({0, 0, DType::uint8, {-1}});
  refused({0, 0, DType::uint8, {std::int64_t{1} << 40, std::int64_t{1} << 40}});
  refused({0, 0, DType::uint8, std::vector<std::int64_t>(65, 0)});
  refused({0, 0, DType::uint8, {static_cast<std::int64_t>(kMostUnasked) + 1}});
  const Bytes bytes = encode({MessageFrameKind::credit, 1});
  EXPECT_THROW(static_cast<void>(decode_message_frame(std::span(bytes).first(1), 0)), Error);
}

TEST(MessageFrame, TravelsSealedAndNoBitOfItCanBeChanged) {
  const Bytes head = encode({MessageFrameKind::whole, 0, {3, 4, DType::uint8, {5}}});
  for (std::size_t bit = 0; bit < (kSealedLengthBytes + head.size() + kSealBytes) * 8; ++bit) {
    auto [here, there] = make_sessions();
    Bytes sealed = seal_message_head(here.sends, head);
    EXPECT_EQ(std::search(sealed.begin(), sealed.end(), head.begin(), head.end()), sealed.end());
    sealed[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    const std::span<const std::byte> changed(sealed);
    const Status refused = thrown([&, &keys = there.receives] {
      EXPECT_EQ(open_message_length(keys, changed.first(kSealedLengthBytes)), head.size());
      static_cast<void>(open_message_head(keys, changed.subspan(kSealedLengthBytes)));
    });
    EXPECT_EQ(refused.code, Code::internal) << bit;
  }
}

}  // namespace
}  // namespace hora::tcp
