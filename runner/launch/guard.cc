// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/guard.h"

#include "runner/launch/process.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>
#include <vector>

namespace hora::hrun {
namespace {

// The words on the pipe: a process group to watch, the negative of one to forget, or kEndOfHrun.
constexpr int kEndOfHrun = 0;

[[noreturn]] void stand_guard(int pipe) {
  ::setsid();  // a Ctrl-C on the terminal is not for the guard
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  for (int fd = 0; fd < pipe; ++fd)
    ::close(fd);  // nobody waits for the end of hrun's output because of the guard
  ::close_range(static_cast<unsigned>(pipe) + 1, ~0U, 0);
  std::vector<int> groups;
  int group = 0;
  while (::read(pipe, &group, sizeof group) == sizeof group) {
    if (group == kEndOfHrun) ::_exit(0);
    if (group > 0) {
      groups.push_back(group);
    } else {
      std::erase(groups, -group);
    }
  }
  for (const int one : groups) ::kill(-one, SIGKILL);
  ::_exit(0);
}

}  // namespace

Guard::Guard() {
  Pipe pipe = make_pipe();
  pipe_ = std::move(pipe.write);
  pid_ = ::fork();
  if (pid_ < 0) fail("cannot start a process");
  if (pid_ == 0) {
    pipe_ = Descriptor();
    stand_guard(pipe.read.fd());
  }
}

Guard::~Guard() {
  tell(kEndOfHrun);
  ::waitpid(pid_, nullptr, 0);
}

void Guard::forget(int process_group) { tell(-process_group); }

void Guard::tell(int word) { [[maybe_unused]] const auto written = ::write(pipe_.fd(), &word, sizeof word); }

}  // namespace hora::hrun
