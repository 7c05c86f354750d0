// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/output_sink.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <utility>

namespace hora::hrun {
namespace {

class SinkTest : public testing::Test {
 protected:
  SinkTest() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read_ = Descriptor(ends[0]);
    write_ = Descriptor(ends[1]);
    ::fcntl(read_.fd(), F_SETFL, O_NONBLOCK);
    ::signal(SIGPIPE, SIG_IGN);
  }
  ~SinkTest() override { ::signal(SIGPIPE, SIG_DFL); }

  std::string read_all() {
    std::string text;
    std::array<char, 4096> buffer;
    for (auto n = ::read(read_.fd(), buffer.data(), buffer.size()); n > 0;
         n = ::read(read_.fd(), buffer.data(), buffer.size())) {
      text.append(buffer.data(), static_cast<std::size_t>(n));
    }
    return text;
  }

  Descriptor read_;
  Descriptor write_;
};

TEST_F(SinkTest, WritesAtOnceWhereSomebodyReads) {
  OutputSink sink(write_.fd());
  sink.add("text\n");
  EXPECT_FALSE(sink.empty());
  EXPECT_EQ(sink.flush(), 0);
  EXPECT_TRUE(sink.empty());
  EXPECT_EQ(read_all(), "text\n");
}

TEST_F(SinkTest, KeepsWhatAFullPipeDoesNotTakeAndLosesNothing) {
  OutputSink sink(write_.fd());
  std::string expected;
  for (int i = 0; i < 50'000; ++i) expected += std::to_string(i) + "\n";
  sink.add(expected);
  EXPECT_EQ(sink.flush(), 0);
  EXPECT_TRUE(sink.full());
  std::string text;
  while (!sink.empty()) {
    text += read_all();
    EXPECT_EQ(sink.flush(), 0);
  }
  EXPECT_FALSE(sink.full());
  EXPECT_EQ(text + read_all(), expected);
}

TEST_F(SinkTest, FillsAPipeWithWholeLines) {
  OutputSink sink(write_.fd());
  const std::string line(999, 'x');
  for (int i = 0; i < 200; ++i) sink.add(line + "\n");
  sink.flush();
  EXPECT_FALSE(sink.empty());
  EXPECT_EQ(read_all().back(), '\n');
}

TEST_F(SinkTest, WritesLinesLongerThanAPipeTakesAtOnce) {
  OutputSink sink(write_.fd());
  const std::string line(3 * PIPE_BUF + 1, 'x');
  sink.add(line + "\n");
  EXPECT_EQ(sink.flush(), 0);
  EXPECT_EQ(read_all(), line + "\n");
}

TEST_F(SinkTest, LeavesADescriptionThatOthersShareAsItIs) {
  OutputSink sink(write_.fd());
  sink.add("text\n");
  sink.flush();
  EXPECT_EQ(::fcntl(write_.fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(SinkTest, TellsThatTheReaderIsGoneAndWaitsForNobodyThen) {
  OutputSink sink(write_.fd());
  read_ = Descriptor();
  sink.add("text\n");
  EXPECT_EQ(sink.flush(), EPIPE);
  EXPECT_TRUE(sink.empty());
}

TEST_F(SinkTest, ThrowsAwayWhatItIsToldTo) {
  OutputSink sink(write_.fd());
  sink.add("text\n");
  EXPECT_EQ(sink.discard(), 5u);
  EXPECT_TRUE(sink.empty());
}

TEST_F(SinkTest, ThrowsAwayWhatCannotBeWrittenAndTellsWhy) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const int closed = ::dup(write_.fd());
  ::close(closed);
  for (const auto& [fd, why] : {std::pair(closed, EBADF), {full.fd(), ENOSPC}}) {
    OutputSink sink(fd);
    sink.add("text\n");
    EXPECT_EQ(sink.flush(), why);
    EXPECT_TRUE(sink.empty());
  }
}

}  // namespace
}  // namespace hora::hrun
