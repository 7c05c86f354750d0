// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/reader_deadline.h"

#include "runner/launch/process.h"
#include "runner/streams/relay.h"

#include "test/runner/own_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string>

namespace hora::hrun {
namespace {

using std::chrono::seconds;

/// A reader of hrun's stderr that takes nothing by itself, in a process of its own. hrun has printed more
/// than fits into the pipe.
struct StandingReader {
  StandingReader() { relay.print(std::string(1 << 20, 'x')); }

  static Pipe pipe_of_stderr() {
    Pipe pipe = make_pipe();
    if (::dup2(pipe.write.fd(), STDERR_FILENO) < 0) fail("cannot become stderr");
    return pipe;
  }
  void take_some() {
    std::array<char, 65536> buffer{};
    EXPECT_GT(::read(pipe.read.fd(), buffer.data(), buffer.size()), 0);
    EXPECT_TRUE(relay.move());
  }
  Pipe pipe = pipe_of_stderr();
  Options options;
  Relay relay{options};
};

TEST(ReaderDeadline, AbandonsOutputOfWhichNothingIsTakenForTheGrace) {
  EXPECT_TRUE(in_own_process([] {
    StandingReader reader;
    ReaderDeadline deadline(reader.relay, seconds(5));
    EXPECT_EQ(deadline.next(), TimePoint::max());
    deadline.turn(TimePoint(seconds(10)));
    deadline.turn(TimePoint(seconds(14)));
    EXPECT_EQ(deadline.next(), TimePoint(seconds(15)));
    EXPECT_FALSE(deadline.over(false));
    deadline.turn(TimePoint(seconds(15)));
    EXPECT_GT(reader.relay.abandoned(), 0u);
  }));
}

TEST(ReaderDeadline, GivesTheGraceAnewForAnyBytes) {
  EXPECT_TRUE(in_own_process([] {
    StandingReader reader;
    ReaderDeadline deadline(reader.relay, seconds(5));
    deadline.turn(TimePoint(seconds(10)));
    reader.take_some();
    deadline.turn(TimePoint(seconds(14)));
    deadline.turn(TimePoint(seconds(16)));
    EXPECT_EQ(deadline.next(), TimePoint(seconds(19)));
    EXPECT_EQ(reader.relay.abandoned(), 0u);
  }));
}

TEST(ReaderDeadline, IsOneSecondAtLeast) {
  EXPECT_TRUE(in_own_process([] {
    StandingReader reader;
    ReaderDeadline deadline(reader.relay, seconds(0));
    deadline.turn(TimePoint(seconds(10)));
    EXPECT_EQ(deadline.next(), TimePoint(seconds(11)));
  }));
}

TEST(ReaderDeadline, IsOverWhenAllIsTakenOrGivenUp) {
  EXPECT_TRUE(in_own_process([] {
    Options options;
    Relay empty(options);
    EXPECT_TRUE(ReaderDeadline(empty, seconds(5)).over(false));
    StandingReader reader;
    ReaderDeadline deadline(reader.relay, seconds(5));
    EXPECT_FALSE(deadline.over(false));
    reader.relay.abandon();
    EXPECT_TRUE(deadline.over(true));
  }));
}

}  // namespace
}  // namespace hora::hrun
