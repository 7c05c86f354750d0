// SPDX-License-Identifier: Apache-2.0
#include "runner/guard.h"

#include "runner/process.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

namespace hora {
namespace {

TEST(Guard, KillsNobodyAfterAFarewell) {
  const Process process = start({{"/bin/sleep", "1000"}, {}, {}, true});
  {
    Guard guard;
    guard.watch(process.pid);
  }
  EXPECT_EQ(::waitpid(process.pid, nullptr, WNOHANG), 0);
  ::kill(process.pid, SIGKILL);
  ::waitpid(process.pid, nullptr, 0);
}

}  // namespace
}  // namespace hora
