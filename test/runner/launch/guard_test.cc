// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/guard.h"

#include "runner/launch/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace hora::hrun {
namespace {

void watch(const Guard& guard, int group) {
  EXPECT_EQ(::write(guard.fd(), &group, sizeof group), static_cast<ssize_t>(sizeof group));
}

TEST(Guard, KillsNobodyAfterAnOrderlyEnd) {
  const Process process = start({{"/bin/sleep", "1000"}, {}, {}});
  {
    Guard guard;
    watch(guard, process.pid);
  }
  EXPECT_EQ(::waitpid(process.pid, nullptr, WNOHANG), 0);
  ::kill(process.pid, SIGKILL);
  ::waitpid(process.pid, nullptr, 0);
}

/// A guard whose owner dies without telling it.
void die_on_guard(int forgotten, int watched) {
  const int owner = ::fork();
  if (owner == 0) {
    Guard guard;
    watch(guard, forgotten);
    watch(guard, watched);
    guard.forget(forgotten);
    ::_exit(0);
  }
  ::waitpid(owner, nullptr, 0);
}

TEST(Guard, KillsThoseItWatchesWhenItsOwnerDiesAndNotThoseItForgot) {
  const Process forgotten = start({{"/bin/sleep", "1000"}, {}, {}});
  const Process watched = start({{"/bin/sleep", "1000"}, {}, {}});
  die_on_guard(forgotten.pid, watched.pid);
  int status = 0;
  ::waitpid(watched.pid, &status, 0);
  EXPECT_EQ(describe_ending(status).exit_code, 128 + SIGKILL);
  EXPECT_EQ(::waitpid(forgotten.pid, nullptr, WNOHANG), 0);
  ::kill(forgotten.pid, SIGKILL);
  ::waitpid(forgotten.pid, nullptr, 0);
}

}  // namespace
}  // namespace hora::hrun
