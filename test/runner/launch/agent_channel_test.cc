// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/agent_channel.h"

#include "runner/launch/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace hora::hrun {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{};

TEST(AgentChannel, PassesLinesAndNotesAndTellsWhenItHeard) {
  Pipe there = make_pipe();
  Pipe back = make_pipe();
  AgentChannel one(back.read.fd(), there.write.fd(), kStart);
  AgentChannel other(there.read.fd(), back.write.fd(), kStart);
  one.send_line("hello");
  one.send(Word::ping, bytes_of("now"));
  EXPECT_TRUE(other.drained());
  one.flush();
  EXPECT_FALSE(one.has_queued());
  EXPECT_FALSE(other.drained());
  other.read(kStart + 3s);
  EXPECT_EQ(other.heard(), kStart + 3s);
  EXPECT_EQ(other.next_line(), "hello");
  EXPECT_EQ(text_of(other.next()->body), "now");
  other.read(kStart + 5s);
  EXPECT_EQ(other.heard(), kStart + 3s);
  EXPECT_FALSE(other.closed());
}

TEST(AgentChannel, NoticesTheEndAfterWhatCameBefore) {
  Pipe there = make_pipe();
  AgentChannel channel(there.read.fd(), STDERR_FILENO, kStart);
  const Bytes message = encode(Word::over, {});
  ASSERT_EQ(::write(there.write.fd(), message.data(), message.size()), static_cast<ssize_t>(message.size()));
  there.write = Descriptor();
  channel.read(kStart);
  EXPECT_TRUE(channel.closed());
  EXPECT_EQ(channel.next()->word, Word::over);
  std::vector<pollfd> events;
  channel.watch(events);
  EXPECT_TRUE(events.empty());
}

TEST(AgentChannel, DiscardsTheQueueWhenTheOtherEndReadsNoMoreAndStillHearsIt) {
  ::signal(SIGPIPE, SIG_IGN);  // as in hrun and its agents
  Pipe there = make_pipe();
  Pipe back = make_pipe();
  AgentChannel channel(back.read.fd(), there.write.fd(), kStart);
  const Bytes message = encode(Word::over, {});
  ASSERT_EQ(::write(back.write.fd(), message.data(), message.size()), static_cast<ssize_t>(message.size()));
  there.read = Descriptor();
  channel.send(Word::ping);
  EXPECT_TRUE(channel.has_queued()) << "nothing is written before flush";
  channel.flush();
  EXPECT_FALSE(channel.has_queued());
  channel.read(kStart);
  EXPECT_EQ(channel.next()->word, Word::over);
  ::signal(SIGPIPE, SIG_DFL);
}

TEST(AgentChannel, KeepsWhatCannotBeWritten) {
  Pipe there = make_pipe();
  AgentChannel channel(there.read.fd(), there.write.fd(), kStart);
  const std::string much(300'000, 'x');
  channel.send(Word::output, bytes_of(much));
  channel.flush();
  EXPECT_TRUE(channel.has_queued());
  EXPECT_TRUE(channel.full());
  std::optional<AgentMessage> message;
  while (!message) {
    channel.read(kStart);
    channel.flush();
    message = channel.next();
  }
  EXPECT_EQ(text_of(message->body), much);
  EXPECT_FALSE(channel.full());
}

}  // namespace
}  // namespace hora::hrun
