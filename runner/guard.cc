// SPDX-License-Identifier: Apache-2.0
#include "runner/guard.h"

#include <hora/status.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

namespace hora {
namespace {

// The words on the pipe: a process group to watch, the negative of one to forget, or this.
constexpr int kFarewell = 0;

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
    if (group == kFarewell) ::_exit(0);
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
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw Error(Code::unavailable, fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  const Descriptor read(ends[0]);
  pipe_ = Descriptor(ends[1]);
  pid_ = ::fork();
  if (pid_ < 0)
    throw Error(Code::unavailable, fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (pid_ == 0) {
    ::close(ends[1]);
    stand_guard(ends[0]);
  }
}

Guard::~Guard() {
  tell(kFarewell);
  ::waitpid(pid_, nullptr, 0);
}

void Guard::watch(int process_group) { tell(process_group); }

void Guard::forget(int process_group) { tell(-process_group); }

void Guard::tell(int word) { [[maybe_unused]] const auto written = ::write(pipe_.fd(), &word, sizeof word); }

}  // namespace hora
