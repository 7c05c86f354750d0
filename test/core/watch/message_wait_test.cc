// SPDX-License-Identifier: Apache-2.0
#include "core/watch/message_wait.h"

#include <hora/message.h>

#include <gtest/gtest.h>

#include <limits>

namespace hora {
namespace {

using std::chrono::milliseconds;
using WaitList = std::vector<MessageWait>;

const MessageWait kReceive{false, kAnySource, kAnyTag, "a tensor", 0, milliseconds(1500)};
const MessageWait kSend{true, 2, std::numeric_limits<int>::max(), "float32[3,4]", 48, milliseconds(7), 3};

TEST(MessageWait, TravelsAsBytes) {
  EXPECT_EQ(decode_waits(encode(WaitList{kReceive, kSend}), 3), (WaitList{kReceive, kSend}));
  EXPECT_EQ(decode_waits(encode(WaitList{}), 3), WaitList{});
  EXPECT_EQ(decode_waits(encode(WaitList(kMostWaits, kSend)), 3).size(), kMostWaits);
}

TEST(MessageWait, IsDescribedAtACertainLengthAtMost) {
  MessageWait wait = kSend;
  wait.what = std::string(10'000, 'x');
  EXPECT_EQ(decode_waits(encode(WaitList{wait}), 3).front().what, std::string(256, 'x'));
}

TEST(MessageWait, IsRefusedAtEveryLengthButItsOwn) {
  Bytes bytes = encode(WaitList{kReceive, kSend});
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(static_cast<void>(decode_waits(std::span(bytes).first(length), 3)), Error) << length;
  bytes.push_back({});
  EXPECT_THROW(static_cast<void>(decode_waits(bytes, 3)), Error);
}

TEST(MessageWait, IsRefusedWithWhatNoRankOfTheJobWouldSend) {
  EXPECT_THROW(static_cast<void>(decode_waits(encode(WaitList{kSend}), 2)), Error) << "there is no rank 2";
  EXPECT_THROW(static_cast<void>(decode_waits(encode(WaitList(kMostWaits + 1, kSend)), 3)), Error);
  MessageWait wait = kSend;
  wait.tag = -2;
  EXPECT_THROW(static_cast<void>(decode_waits(encode(WaitList{wait}), 3)), Error);
  wait = kSend;
  wait.since = milliseconds(-1);
  EXPECT_THROW(static_cast<void>(decode_waits(encode(WaitList{wait}), 3)), Error);
}

TEST(MessageWait, HasATitle) {
  EXPECT_EQ(title(kReceive), "a message from any rank with any tag");
  EXPECT_EQ(title({true, 2, 7, "", 0, {}}), "a message to rank 2 with tag 7");
  EXPECT_EQ(title({true, 2, 7, "", 0, {}, 4}), "a message to rank 2 with tag 7 in process set 4");
  EXPECT_EQ(kind(kReceive), "receive");
  EXPECT_EQ(kind(kSend), "send");
}

}  // namespace
}  // namespace hora
