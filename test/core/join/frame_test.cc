// SPDX-License-Identifier: Apache-2.0
#include "core/join/frame.h"

#include "test/support/sessions.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::HasSubstr;

/// Why a stream is refused.
std::string failure(Cipher cipher, const Bytes& stream) {
  FrameReader reader(std::move(cipher));
  reader.feed(stream);
  return thrown([&] {
           while (reader.next()) {
           }
         })
      .message;
}

TEST(FrameReader, PutsFramesTogetherByteByByte) {
  const Bytes contents{std::byte{1}, std::byte{2}};
  auto [here, there] = make_sessions();
  Bytes stream = seal_frame(here.sends, FrameKind::message, contents);
  const Bytes leave = seal_frame(here.sends, FrameKind::leave, {});
  stream.insert(stream.end(), leave.begin(), leave.end());
  FrameReader reader(std::move(there.receives));
  std::vector<Frame> frames;
  for (const auto byte : stream) {
    reader.feed({&byte, 1});
    while (auto frame = reader.next()) frames.push_back(*std::move(frame));
  }
  EXPECT_EQ(frames, (std::vector<Frame>{{FrameKind::message, contents}, {FrameKind::leave, {}}}));
}

TEST(FrameReader, RefusesKindsAndLengthsThatDoNotExist) {
  for (const Bytes& head : {Bytes{std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{99}},
                            Bytes(5, std::byte{0xFF})}) {
    auto [here, there] = make_sessions();
    Bytes sealed(kSealedHeadBytes);
    here.sends.seal(head, sealed);
    EXPECT_EQ(failure(std::move(there.receives), sealed).substr(0, 9), "bad frame");
  }
}

TEST(FrameReader, NoBitOfAFrameCanBeChanged) {
  const Bytes contents(3, std::byte{8});
  for (std::size_t bit = 0; bit < (kSealedHeadBytes + contents.size() + kSealBytes) * 8; ++bit) {
    auto [here, there] = make_sessions();
    Bytes frame = seal_frame(here.sends, FrameKind::message, contents);
    frame[bit / 8] ^= static_cast<std::byte>(1U << (bit % 8));
    EXPECT_THAT(failure(std::move(there.receives), frame), HasSubstr("changed")) << bit;
  }
}

TEST(FrameReader, FramesCannotBeRepeatedLeftOutSwappedOrSentBack) {
  const auto two = [](Cipher& cipher) {
    return std::pair{seal_frame(cipher, FrameKind::message, Bytes(1, std::byte{1})),
                     seal_frame(cipher, FrameKind::message, Bytes(1, std::byte{2}))};
  };
  const auto stream = [](const Bytes& one, const Bytes& other) {
    Bytes both = one;
    both.insert(both.end(), other.begin(), other.end());
    return both;
  };
  const auto refused = [&](auto order) {
    auto [here, there] = make_sessions();
    const auto [first, second] = two(here.sends);
    return failure(std::move(there.receives), order(first, second));
  };
  EXPECT_EQ(refused([&](auto& first, auto& second) { return stream(first, second); }), "");
  EXPECT_THAT(refused([&](auto& first, auto&) { return stream(first, first); }), HasSubstr("repeated"));
  EXPECT_THAT(refused([&](auto&, auto& second) { return second; }), HasSubstr("forged"));
  EXPECT_THAT(refused([&](auto& first, auto& second) { return stream(second, first); }), HasSubstr("forged"));
  auto [here, there] = make_sessions();
  EXPECT_THAT(failure(std::move(here.receives), two(here.sends).first), HasSubstr("forged"));
}

TEST(FrameReader, FramesOfOneConnectionDoNotFitAnother) {
  auto [here, there] = make_sessions();
  auto [other_here, other_there] = make_sessions();
  EXPECT_THAT(failure(std::move(other_there.receives), seal_frame(here.sends, FrameKind::beat, {})),
              HasSubstr("forged"));
}

TEST(FrameReader, AFrameThatIsCutShortDoesNotCome) {
  auto [here, there] = make_sessions();
  const Bytes frame = seal_frame(here.sends, FrameKind::message, Bytes(9, std::byte{1}));
  FrameReader reader(std::move(there.receives));
  for (std::size_t at = 0; at + 1 < frame.size(); ++at) {
    reader.feed(std::span(frame).subspan(at, 1));
    EXPECT_FALSE(reader.next()) << at;
  }
}

TEST(Loss, ComesBackAsItWasSent) {
  const Loss loss{2, {Code::aborted, "rank 2 is gone"}};
  EXPECT_EQ(decode_loss(encode(loss), 3), loss);
  EXPECT_THROW(decode_loss(encode(loss), 2), Error);
  const Loss nobodys{-1, {Code::timeout, "'grad' has been waited for"}};
  EXPECT_EQ(decode_loss(encode(nobodys), 3), nobodys);
}

TEST(Announcement, ComesBackAsItWasSent) {
  const Announcement announcement{RankSet(std::vector<int>{1, 2, 5}), Bytes(3, std::byte{7})};
  const Bytes bytes = encode(announcement.to, announcement.message);
  EXPECT_EQ(decode_announcement(bytes, 6), announcement);
  EXPECT_THROW(static_cast<void>(decode_announcement(bytes, 5)), Error);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(static_cast<void>(decode_announcement(std::span(bytes).first(length), 6)), Error);
  EXPECT_EQ(decode_announcement(encode(announcement.to, {}), 6), (Announcement{announcement.to, {}}));
}

}  // namespace
}  // namespace hora
