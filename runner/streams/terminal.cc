// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/terminal.h"

#include "runner/launch/process.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <cstdlib>

namespace hora::hrun {

WindowSize size_of(int terminal) {
  winsize found{};
  if (::ioctl(terminal, TIOCGWINSZ, &found) != 0 || found.ws_row == 0 || found.ws_col == 0) return {};
  return {found.ws_row, found.ws_col};
}

void resize(int terminal, WindowSize size) {
  winsize wanted{};
  wanted.ws_row = static_cast<unsigned short>(size.rows);
  wanted.ws_col = static_cast<unsigned short>(size.columns);
  ::ioctl(terminal, TIOCSWINSZ, &wanted);
}

PseudoTerminal make_terminal(WindowSize size) {
  PseudoTerminal made;
  made.master = Descriptor(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
  if (!made.master || ::unlockpt(made.master.fd()) != 0) fail("cannot make a pseudo terminal");
  made.slave = Descriptor(::ioctl(made.master.fd(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
  termios modes{};
  if (!made.slave || ::tcgetattr(made.slave.fd(), &modes) != 0) fail("cannot open a pseudo terminal");
  modes.c_iflag |= IUTF8;
  modes.c_iflag &= ~static_cast<tcflag_t>(IXON);
  modes.c_oflag &= ~static_cast<tcflag_t>(ONLCR);
  modes.c_oflag |= ONLRET;  // it knows that the cursor returns, as the user's terminal sees to that
  modes.c_cc[VSUSP] = _POSIX_VDISABLE;
  if (::tcsetattr(made.slave.fd(), TCSANOW, &modes) != 0) fail("cannot set up a pseudo terminal");
  resize(made.slave.fd(), size);
  return made;
}

bool is_master(int fd) {
  unsigned number = 0;
  return ::ioctl(fd, TIOCGPTN, &number) == 0;
}

}  // namespace hora::hrun
