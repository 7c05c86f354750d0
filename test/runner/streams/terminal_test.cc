// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/terminal.h"

#include "runner/launch/process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <string>

namespace hora::hrun {
namespace {

std::string read_from(int fd) {
  std::array<char, 64> buffer{};
  const auto count = ::read(fd, buffer.data(), buffer.size());
  return {buffer.data(), count > 0 ? static_cast<std::size_t>(count) : 0};
}

TEST(Terminal, KeepsLinesAsTheyAreWrittenAndEchoesWhatIsTyped) {
  const PseudoTerminal made = make_terminal({30, 100});
  EXPECT_EQ(size_of(made.slave.fd()), (WindowSize{30, 100}));
  ASSERT_EQ(::write(made.slave.fd(), "a\nb\r\n", 5), 5);
  ASSERT_TRUE(await_events(made.master.fd(), POLLIN, Clock::now() + std::chrono::seconds(10)));
  EXPECT_EQ(read_from(made.master.fd()), "a\nb\r\n");
  ASSERT_EQ(::write(made.master.fd(), "w\x7fwords\r", 8), 8);
  EXPECT_EQ(read_from(made.slave.fd()), "words\n") << "edited as a line";
  EXPECT_EQ(read_from(made.master.fd()), "w\b \bwords\n");
}

TEST(Terminal, ChangesItsSize) {
  const PseudoTerminal made = make_terminal({});
  EXPECT_EQ(size_of(made.slave.fd()), WindowSize());
  resize(made.master.fd(), {40, 120});
  EXPECT_EQ(size_of(made.slave.fd()), (WindowSize{40, 120}));
}

TEST(Terminal, IsKnownByItsMasterAlone) {
  const PseudoTerminal made = make_terminal({});
  EXPECT_TRUE(is_master(made.master.fd()));
  EXPECT_FALSE(is_master(made.slave.fd()));
  const Pipe pipe = make_pipe();
  EXPECT_FALSE(is_master(pipe.read.fd()));
  EXPECT_EQ(size_of(pipe.read.fd()), WindowSize()) << "that of no terminal is the usual one";
}

}  // namespace
}  // namespace hora::hrun
