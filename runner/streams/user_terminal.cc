// SPDX-License-Identifier: Apache-2.0
#include "runner/streams/user_terminal.h"

#include <unistd.h>

namespace hora::hrun {
namespace {

/// Those for keys that go on one by one. How output looks stays as it is.
termios modes_for_keys(termios modes) {
  modes.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | ISTRIP);
  modes.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ECHONL | IEXTEN);
  modes.c_cc[VQUIT] = _POSIX_VDISABLE;  // it would end hrun, and leave the terminal as it is
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  return modes;
}

bool same(const termios& one, const termios& other) {
  return one.c_iflag == other.c_iflag && one.c_lflag == other.c_lflag &&
         one.c_cc[VQUIT] == other.c_cc[VQUIT] && one.c_cc[VMIN] == other.c_cc[VMIN];
}

}  // namespace

bool UserTerminal::in_foreground() const {
  const pid_t group = ::tcgetpgrp(fd_);
  return group < 0 || group == ::getpgrp();  // a terminal that controls nobody has no background
}

void UserTerminal::take() {
  termios now{};
  if (::tcgetattr(fd_, &now) != 0) return;
  if (!original_) original_ = now;
  const termios wanted = modes_for_keys(*original_);
  if (!same(now, wanted)) ::tcsetattr(fd_, TCSANOW, &wanted);
}

void UserTerminal::give_back() {
  if (original_ && in_foreground()) ::tcsetattr(fd_, TCSANOW, &*original_);
  original_.reset();
}

}  // namespace hora::hrun
