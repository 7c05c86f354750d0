// SPDX-License-Identifier: Apache-2.0
#include "core/launcher/member_line.h"

#include "test/support/socket_pair.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace hora {
namespace {

using elastic::LeaderMessage;
using elastic::MemberMessage;

class MemberLineTest : public testing::Test {
 protected:
  MemberLineTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
    own_ = Descriptor(ends[0]);
    hrun_ = Descriptor(ends[1]);
  }
  Descriptor own_;
  Descriptor hrun_;
};

TEST_F(MemberLineTest, CarriesWholeMessagesBothWays) {
  MemberLine line(own_.fd());
  EXPECT_EQ(line.receive(), std::nullopt);
  line.send({.kind = MemberMessage::Kind::join, .port = 4711});
  std::array<std::byte, 64> heard{};
  const auto got = ::recv(hrun_.fd(), heard.data(), heard.size(), 0);
  ASSERT_GT(got, 0);
  EXPECT_EQ(elastic::decode_member_message(std::span(heard).first(static_cast<std::size_t>(got))).port, 4711);
  const LeaderMessage go{.kind = LeaderMessage::Kind::go, .generation = 3};
  const LeaderMessage out{.kind = LeaderMessage::Kind::out, .generation = 3, .why = "the training has ended"};
  for (const auto& message : {go, out}) {
    const Bytes bytes = encode(message);
    ASSERT_EQ(::send(hrun_.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  EXPECT_EQ(line.receive(), go);
  EXPECT_EQ(line.receive(), out);
}

TEST_F(MemberLineTest, SaysThatHrunHasEnded) {
  MemberLine line(own_.fd());
  hrun_ = Descriptor();
  line.send({.kind = MemberMessage::Kind::beat});
  EXPECT_EQ(thrown([&] { static_cast<void>(line.receive()); }).code, Code::unavailable);
}

TEST(MemberLine, NeedsAnOpenSocket) {
  EXPECT_EQ(thrown([] { MemberLine line(1 << 19); }).code, Code::invalid_argument);
}

}  // namespace
}  // namespace hora
