// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/outlet.h"

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

class OutletTest : public testing::Test {
 protected:
  OutletTest() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    read_ = Descriptor(ends[0]);
    write_ = Descriptor(ends[1]);
    ::fcntl(read_.fd(), F_SETFL, O_NONBLOCK);
    ::signal(SIGPIPE, SIG_IGN);
  }
  ~OutletTest() override { ::signal(SIGPIPE, SIG_DFL); }

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

TEST_F(OutletTest, WritesAtOnceWhereSomebodyReads) {
  Outlet outlet(write_.fd());
  outlet.add("text\n");
  EXPECT_FALSE(outlet.empty());
  EXPECT_EQ(outlet.flush(), 0);
  EXPECT_TRUE(outlet.empty());
  EXPECT_EQ(read_all(), "text\n");
}

TEST_F(OutletTest, KeepsWhatAFullPipeDoesNotTakeAndLosesNothing) {
  Outlet outlet(write_.fd());
  std::string expected;
  for (int i = 0; i < 50'000; ++i) expected += std::to_string(i) + "\n";
  outlet.add(expected);
  EXPECT_EQ(outlet.flush(), 0);
  EXPECT_TRUE(outlet.full());
  std::string text;
  while (!outlet.empty()) {
    text += read_all();
    EXPECT_EQ(outlet.flush(), 0);
  }
  EXPECT_FALSE(outlet.full());
  EXPECT_EQ(text + read_all(), expected);
}

TEST_F(OutletTest, FillsAPipeWithWholeLines) {
  Outlet outlet(write_.fd());
  const std::string line(999, 'x');
  for (int i = 0; i < 200; ++i) outlet.add(line + "\n");
  outlet.flush();
  EXPECT_FALSE(outlet.empty());
  EXPECT_EQ(read_all().back(), '\n');
}

TEST_F(OutletTest, WritesLinesLongerThanAPipeTakesAtOnce) {
  Outlet outlet(write_.fd());
  const std::string line(3 * PIPE_BUF + 1, 'x');
  outlet.add(line + "\n");
  EXPECT_EQ(outlet.flush(), 0);
  EXPECT_EQ(read_all(), line + "\n");
}

TEST_F(OutletTest, LeavesADescriptionThatOthersShareAsItIs) {
  Outlet outlet(write_.fd());
  outlet.add("text\n");
  outlet.flush();
  EXPECT_EQ(::fcntl(write_.fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(OutletTest, TellsThatTheReaderIsGoneAndWaitsForNobodyThen) {
  Outlet outlet(write_.fd());
  read_ = Descriptor();
  outlet.add("text\n");
  EXPECT_EQ(outlet.flush(), EPIPE);
  EXPECT_TRUE(outlet.empty());
}

TEST_F(OutletTest, ThrowsAwayWhatItIsToldTo) {
  Outlet outlet(write_.fd());
  outlet.add("text\n");
  EXPECT_EQ(outlet.discard(), 5u);
  EXPECT_TRUE(outlet.empty());
}

TEST_F(OutletTest, ThrowsAwayWhatCannotBeWrittenAndTellsWhy) {
  const Descriptor full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const int closed = ::dup(write_.fd());
  ::close(closed);
  for (const auto& [fd, why] : {std::pair(closed, EBADF), {full.fd(), ENOSPC}}) {
    Outlet outlet(fd);
    outlet.add("text\n");
    EXPECT_EQ(outlet.flush(), why);
    EXPECT_TRUE(outlet.empty());
  }
}

}  // namespace
}  // namespace hora::hrun
