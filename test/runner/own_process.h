// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace hora::hrun {

/// Runs a test in a process of its own: one that takes signals, or adopts orphans. Whether it passed.
inline bool in_own_process(const std::function<void()>& test) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    test();
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_FALSE(WIFSIGNALED(status)) << "it was killed by signal " << WTERMSIG(status);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace hora::hrun
