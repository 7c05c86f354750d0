// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/on_signal.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <semaphore>
#include <vector>

namespace hora {
namespace {

TEST(OnSignal, RunsTheNoticeOncePerSignalOnAnotherThread) {
  std::counting_semaphore<> told(0);
  std::thread::id where;
  const OnSignal on_signal(SIGUSR1, [&] {
    where = std::this_thread::get_id();
    told.release();
  });
  for (int i = 0; i < 3; ++i) {
    ::raise(SIGUSR1);
    told.acquire();
  }
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(OnSignal, TellsAllThatListenToThatSignal) {
  std::counting_semaphore<> told(0);
  std::atomic<int> wrong = 0;
  const OnSignal one(SIGUSR2, [&] { told.release(); });
  const OnSignal two(SIGUSR2, [&] { told.release(); });
  const OnSignal other(SIGUSR1, [&] { ++wrong; });
  const OnSignal none(0, [&] { ++wrong; });
  ::raise(SIGUSR2);
  told.acquire();
  told.acquire();
  EXPECT_EQ(wrong, 0);
}

std::atomic<int> g_own_handler_ran = 0;

TEST(OnSignal, RunsTheProgramsOwnHandlerToo) {
  for (const bool with_info : {false, true}) {
    struct sigaction own{};
    if (with_info) {
      own.sa_flags = SA_SIGINFO;
      own.sa_sigaction = [](int, siginfo_t*, void*) { ++g_own_handler_ran; };
    } else {
      own.sa_handler = [](int) { ++g_own_handler_ran; };
    }
    ::sigaction(SIGUSR1, &own, nullptr);
    std::counting_semaphore<> told(0);
    const OnSignal on_signal(SIGUSR1, [&] { told.release(); });
    ::raise(SIGUSR1);
    told.acquire();
  }
  EXPECT_EQ(g_own_handler_ran, 2);
}

TEST(OnSignal, LeavesTheProcessAliveWhenItIsGone) {
  ::signal(SIGUSR2, SIG_DFL);
  std::atomic<int> told = 0;
  {
    const OnSignal on_signal(SIGUSR2, [&] { ++told; });
  }
  ::raise(SIGUSR2);
  EXPECT_EQ(told, 0);
}

TEST(OnSignal, HearsNothingOfAForkedChildsSignals) {
  std::counting_semaphore<> told(0);
  const OnSignal on_signal(SIGUSR1, [&] { told.release(); });
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGUSR1);
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(told.try_acquire_for(std::chrono::milliseconds(50)));
}

TEST(OnSignal, HasRoomForManyAndSaysWhenThereIsNone) {
  std::vector<std::unique_ptr<OnSignal>> all;
  EXPECT_THROW(
      {
        for (int i = 0; i < 1000; ++i) all.push_back(std::make_unique<OnSignal>(SIGUSR1, [] {}));
      },
      Error);
  EXPECT_GE(all.size(), 16u);
  all.clear();
  const OnSignal again(SIGUSR1, [] {});
}

}  // namespace
}  // namespace hora
