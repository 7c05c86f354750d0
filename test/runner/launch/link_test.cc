// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/link.h"

#include "runner/launch/process.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace hora::hrun {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{};

TEST(Link, PassesLinesAndNotesAndTellsWhenItHeard) {
  Pipe there = make_pipe();
  Pipe back = make_pipe();
  Link one(back.read.fd(), there.write.fd(), kStart);
  Link other(there.read.fd(), back.write.fd(), kStart);
  one.send_line("hello");
  one.send(Word::ping, bytes_of("now"));
  EXPECT_TRUE(other.drained());
  one.flush();
  EXPECT_TRUE(one.all_sent());
  EXPECT_FALSE(other.drained());
  other.read(kStart + 3s);
  EXPECT_EQ(other.heard(), kStart + 3s);
  EXPECT_EQ(other.next_line(), "hello");
  EXPECT_EQ(text_of(other.next()->body), "now");
  other.read(kStart + 5s);
  EXPECT_EQ(other.heard(), kStart + 3s);
  EXPECT_FALSE(other.closed());
}

TEST(Link, NoticesTheEndAfterWhatCameBefore) {
  Pipe there = make_pipe();
  Link link(there.read.fd(), STDERR_FILENO, kStart);
  const Bytes note = encode(Word::over, {});
  ASSERT_EQ(::write(there.write.fd(), note.data(), note.size()), static_cast<ssize_t>(note.size()));
  there.write = Descriptor();
  link.read(kStart);
  EXPECT_TRUE(link.closed());
  EXPECT_EQ(link.next()->word, Word::over);
  std::vector<pollfd> events;
  link.watch(events);
  EXPECT_TRUE(events.empty());
}

TEST(Link, KeepsWhatCannotBeWritten) {
  Pipe there = make_pipe();
  Link link(there.read.fd(), there.write.fd(), kStart);
  const std::string much(300'000, 'x');
  link.send(Word::output, bytes_of(much));
  link.flush();
  EXPECT_FALSE(link.all_sent());
  EXPECT_TRUE(link.full());
  std::optional<Note> note;
  while (!note) {
    link.read(kStart);
    link.flush();
    note = link.next();
  }
  EXPECT_EQ(text_of(note->body), much);
  EXPECT_FALSE(link.full());
}

}  // namespace
}  // namespace hora::hrun
