// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/member_line.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>

namespace hora::hrun {
namespace {

using elastic::LeaderMessage;
using elastic::MemberMessage;

LeaderMessage go(std::uint64_t generation) {
  return {.kind = LeaderMessage::Kind::go, .generation = generation};
}

class MemberLineTest : public testing::Test {
 protected:
  MemberLineTest() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    line_ = MemberLine(Descriptor(ends[0]));
    theirs_ = Descriptor(ends[1]);
  }
  void say(const MemberMessage& message) {
    const Bytes bytes = elastic::encode(message);
    EXPECT_EQ(::send(theirs_.fd(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  LeaderMessage hear() {
    const auto got = ::recv(theirs_.fd(), space_.data(), space_.size(), MSG_DONTWAIT);
    EXPECT_GT(got, 0);
    return elastic::decode_leader_message(std::span(space_).first(static_cast<std::size_t>(got)));
  }
  std::optional<MemberMessage> receive() { return line_.receive(space_); }
  [[nodiscard]] bool has_queued() const {
    std::vector<pollfd> events;
    line_.watch(events);
    return !events.empty();
  }
  /// Fills the socket. The number of messages that were sent.
  std::uint64_t fill() {
    std::uint64_t sent = 0;
    while (!has_queued()) line_.send(go(++sent));
    return sent;
  }

  MemberLine line_;
  Descriptor theirs_;
  Bytes space_ = Bytes(4096);
};

TEST_F(MemberLineTest, CarriesMessagesBothWays) {
  line_.send(go(7));
  EXPECT_EQ(hear(), go(7));
  EXPECT_EQ(receive(), std::nullopt);
  say({.kind = MemberMessage::Kind::formed, .generation = 9});
  EXPECT_EQ(receive(), (MemberMessage{.kind = MemberMessage::Kind::formed, .generation = 9}));
  EXPECT_TRUE(line_.is_open());
}

TEST_F(MemberLineTest, LosesNoMessageThatTheSocketDoesNotTake) {
  std::uint64_t sent = fill();
  for (std::size_t more = 1; more < MemberLine::kMostQueued; ++more) line_.send(go(++sent));
  EXPECT_FALSE(line_.broken());
  for (std::uint64_t heard = 1; heard <= sent; ++heard) {
    EXPECT_EQ(hear(), go(heard));
    line_.flush();
  }
  EXPECT_FALSE(has_queued());
}

TEST_F(MemberLineTest, BreaksOffWhereNobodyReads) {
  std::uint64_t sent = fill();
  for (std::size_t more = 0; more < MemberLine::kMostQueued; ++more) line_.send(go(++sent));
  EXPECT_TRUE(line_.broken());
  EXPECT_FALSE(line_.is_open());
  EXPECT_FALSE(has_queued());
}

TEST_F(MemberLineTest, BreaksOffWhereNoMessageComes) {
  EXPECT_EQ(::send(theirs_.fd(), "\xff", 1, 0), 1);
  EXPECT_EQ(receive(), std::nullopt);
  EXPECT_TRUE(line_.broken());
}

TEST_F(MemberLineTest, GivesMessagesOfAProcessThatHasEndedAndReadNothing) {
  line_.send(go(1));
  say({.kind = MemberMessage::Kind::finish});
  say({.kind = MemberMessage::Kind::beat});
  theirs_ = Descriptor();
  EXPECT_EQ(receive(), MemberMessage{.kind = MemberMessage::Kind::finish});
  line_.send(go(2));
  EXPECT_EQ(receive(), MemberMessage{.kind = MemberMessage::Kind::beat});
  EXPECT_EQ(receive(), std::nullopt);
  EXPECT_FALSE(line_.is_open());
  EXPECT_FALSE(line_.broken());
  line_.send(go(3));
  EXPECT_EQ(receive(), std::nullopt);
}

TEST_F(MemberLineTest, GivesMessagesOfAProcessThatTakesNoMore) {
  say({.kind = MemberMessage::Kind::finish});
  theirs_ = Descriptor();
  line_.send(go(1));
  line_.send(go(2));
  EXPECT_EQ(receive(), MemberMessage{.kind = MemberMessage::Kind::finish});
  EXPECT_FALSE(line_.broken());
}

TEST(NoMemberLine, TakesNothing) {
  MemberLine none;
  none.send(go(1));
  none.flush();
  std::array<std::byte, 8> space{};
  EXPECT_EQ(none.receive(space), std::nullopt);
  EXPECT_FALSE(none.broken());
}

}  // namespace
}  // namespace hora::hrun
