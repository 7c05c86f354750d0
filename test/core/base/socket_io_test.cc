// SPDX-License-Identifier: Apache-2.0
#include "core/base/socket_io.h"

#include "core/base/bytes.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <future>

namespace hora {
namespace {

class SocketIo : public testing::Test {
 protected:
  SocketIo() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    left_ = Descriptor(ends[0]);
    right_ = Descriptor(ends[1]);
  }
  Descriptor left_;
  Descriptor right_;
};

TEST_F(SocketIo, MovesMoreThanASocketHolds) {
  const Bytes sent(5'000'000, std::byte{3});
  Bytes received(sent.size());
  auto writer = std::async(std::launch::async, [&] { write_all(left_.fd(), sent, TimePoint::max()); });
  read_exactly(right_.fd(), received, TimePoint::max());
  writer.get();
  EXPECT_EQ(received, sent);
}

TEST_F(SocketIo, EndsAtTheDeadlineAndAtTheEndOfTheStream) {
  std::array<std::byte, 4> bytes{};
  try {
    read_exactly(left_.fd(), bytes, Clock::now());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::timeout);
  }
  right_ = Descriptor();
  try {
    read_exactly(left_.fd(), bytes, TimePoint::max());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
  }
}

TEST(MillisecondsUntil, NeverOverflows) {
  EXPECT_EQ(milliseconds_until(TimePoint::max()), -1);
  EXPECT_EQ(milliseconds_until(TimePoint::min()), 0);
  EXPECT_EQ(milliseconds_until(Clock::now() - std::chrono::hours(1)), 0);
  EXPECT_GT(milliseconds_until(Clock::now() + std::chrono::hours(1)), 3'000'000);
}

TEST_F(SocketIo, DescriptorsMoveAndClose) {
  const int fd = left_.fd();
  Descriptor moved(std::move(left_));
  EXPECT_EQ(moved.fd(), fd);
  EXPECT_FALSE(left_);
  moved = Descriptor();
  EXPECT_EQ(::send(fd, "x", 1, MSG_NOSIGNAL), -1);
}

}  // namespace
}  // namespace hora
