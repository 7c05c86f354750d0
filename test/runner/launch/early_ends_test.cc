// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/early_ends.h"

#include "test/runner/own_process.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace hora::hrun {
namespace {

/// A child process of several threads, one of which holds the mutex. It ends as `end` does.
pid_t child_with(LifeMutex& mutex, void (*end)()) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::thread([&] {
      mutex.hold();
      std::thread(end).detach();
      ::pause();
    }).detach();
    ::pause();
  }
  return child;
}

TEST(EarlyEnds, TellHowAProcessEndsThatNobodyHasReaped) {
  EXPECT_TRUE(in_own_process([] {  // its children are not those of other tests
    EarlyEnds ends;
    for (const auto end : {+[] { ::raise(SIGKILL); }, +[] { ::_exit(3); }, +[] { ::abort(); }}) {
      auto mutex = std::make_shared<LifeMutex>();
      const pid_t child = child_with(*mutex, end);
      siginfo_t info{};
      ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // it has held the mutex
      ends.follow(child, mutex);
      pollfd event = ends.event();
      ASSERT_EQ(::poll(&event, 1, 60'000), 1);
      const auto told = ends.take();
      int status = 0;
      ::waitpid(child, &status, 0);
      ASSERT_EQ(told.size(), 1u);
      EXPECT_EQ(told.front().process, child);
      EXPECT_EQ(told.front().wait_status, status);
    }
  }));
}

}  // namespace
}  // namespace hora::hrun
