// SPDX-License-Identifier: Apache-2.0
// A terminal that controls nobody is always in the foreground; test/python/test_terminal.py has shells.
#include "runner/streams/user_terminal.h"

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

termios modes_of(int fd) {
  termios modes{};
  EXPECT_EQ(::tcgetattr(fd, &modes), 0);
  return modes;
}

TEST(UserTerminal, PassesKeysOnOneByOneAndIsAsItWasAfterwards) {
  const PseudoTerminal made = make_terminal({});
  const int fd = made.slave.fd();
  const termios before = modes_of(fd);
  {
    UserTerminal terminal(fd);
    EXPECT_TRUE(terminal.in_foreground());
    EXPECT_EQ(modes_of(fd).c_lflag, before.c_lflag) << "until it is taken";
    terminal.take();
    EXPECT_EQ(modes_of(fd).c_lflag & (ICANON | ECHO), 0u);
    EXPECT_NE(modes_of(fd).c_lflag & ISIG, 0u) << "Ctrl-C is for hrun";
    EXPECT_EQ(modes_of(fd).c_oflag, before.c_oflag) << "other ranks print there, too";
    ASSERT_EQ(::tcsetattr(fd, TCSANOW, &before), 0);
    terminal.take();
    EXPECT_EQ(modes_of(fd).c_lflag & ECHO, 0u) << "a shell had changed it";
    terminal.give_back();
    EXPECT_EQ(modes_of(fd).c_lflag, before.c_lflag);
    terminal.take();
  }
  EXPECT_EQ(modes_of(fd).c_lflag, before.c_lflag);
  EXPECT_EQ(modes_of(fd).c_iflag, before.c_iflag);
}

}  // namespace
}  // namespace hora::hrun
