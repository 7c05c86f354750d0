// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/signals.h"

#include "runner/launch/process.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace hora::hrun {
namespace {

constexpr int kAny = -1;  // as waitpid() takes it

bool is_ignored(int signal) {
  struct sigaction found{};
  return ::sigaction(signal, nullptr, &found) == 0 && found.sa_handler == SIG_IGN;
}

/// Whether a child has ended, was stopped, or goes on.
bool take_change(int which, const std::function<void(const Signals::Child&)>& changed) {
  Signals::Child child;
  child.pid = ::waitpid(which, &child.wait_status, WNOHANG | WUNTRACED | WCONTINUED);
  if (child.pid > 0) changed(child);
  return child.pid > 0;
}

}  // namespace

Signals::Signals(const std::vector<int>& others) {
  ::signal(SIGCHLD, SIG_DFL);  // ignored, as some parents leave it, no end of a child would be told
  sigset_t set;
  ::sigemptyset(&set);
  for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) ::sigaddset(&set, signal);
  for (const int signal : others) ::sigaddset(&set, signal);
  if (!is_ignored(SIGHUP)) ::sigaddset(&set, SIGHUP);  // nohup: whoever asked for that means it
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  sigset_t terminal;  // from a terminal's background they come as errors, and do not stop this process
  ::sigemptyset(&terminal);
  for (const int signal : {SIGTTIN, SIGTTOU}) ::sigaddset(&terminal, signal);
  ::sigprocmask(SIG_BLOCK, &terminal, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  fd_ = Descriptor(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_) fail("cannot watch signals");
  // The processes that a rank leaves behind are reaped here: no other process may, and their group would
  // never look empty.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

void Signals::take(const std::function<void(const Child&)>& changed, const std::function<void(int)>& told) {
  signalfd_siginfo info{};
  while (::read(fd_.fd(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo != SIGCHLD) {
      told(static_cast<int>(info.ssi_signo));
      continue;
    }
    // One signal may stand for many changes, and names the first; wait() takes the others in any order.
    take_change(static_cast<int>(info.ssi_pid), changed);
    while (take_change(kAny, changed)) {
    }
  }
}

}  // namespace hora::hrun
