// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/on_failure.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

namespace hora {
namespace {

/// The stderr of a process that runs `program` and ends by std::terminate.
std::string said_by(const std::function<void()>& program) {
  int ends[2];
  if (::pipe(ends) != 0) return "no pipe";
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    std::set_terminate([] {
      [[maybe_unused]] const auto written = ::write(STDERR_FILENO, "the former\n", 11);
      ::_exit(3);
    });
    program();
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string text;
  char buffer[512];
  for (auto n = ::read(ends[0], buffer, sizeof buffer); n > 0; n = ::read(ends[0], buffer, sizeof buffer))
    text.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 0;
  ::waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  return text;
}

void say(const std::string& why) {
  const std::string line = why + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

void fail_with(const std::function<void()>& failure) {
  std::thread([&] { failure(); }).join();
}

TEST(OnFailure, TellsTheExceptionThatNobodyCatchesAndThenWhoeverCameBefore) {
  EXPECT_EQ(said_by([] {
              const OnFailure one(say);
              const OnFailure another([](const std::string&) { say("another"); });
              fail_with([] { throw std::runtime_error("disk is full"); });
            }),
            "uncaught std::runtime_error: disk is full\nanother\nthe former\n");
}

TEST(OnFailure, TellsOfWhatIsNoExceptionOfTheStandardLibrarys) {
  const auto notice = [](const std::function<void()>& failure) {
    return said_by([&] {
      const OnFailure one(say);
      fail_with(failure);
    });
  };
  EXPECT_EQ(notice([] { throw 7; }), "uncaught exception of type int\nthe former\n");
  EXPECT_EQ(notice([] { std::terminate(); }), "it called std::terminate\nthe former\n");
}

TEST(OnFailure, TellsTheExitStatusUnlessThatIsNoFailureBeforeWhatWasMadeEarlierIsDestroyed) {
  struct Earlier {
    ~Earlier() { say("destroyed"); }
  };
  EXPECT_EQ(said_by([] {
              std::atexit([] { ::_exit(3); });
              static const Earlier earlier;
              const OnFailure one(say);
              std::exit(7);
            }),
            "it exited with code 7\ndestroyed\n");
  EXPECT_EQ(said_by([] {
              std::atexit([] { ::_exit(3); });
              const OnFailure one(say);
              std::exit(256);
            }),
            "");
}

TEST(OnFailure, SaysNothingOnceItIsGone) {
  EXPECT_EQ(said_by([] {
              {
                const OnFailure one(say);
              }
              fail_with([] { throw 7; });
            }),
            "the former\n");
}

TEST(OnFailure, SaysNothingInAForkedChild) {
  EXPECT_EQ(said_by([] {
              const OnFailure one(say);
              if (::fork() == 0) fail_with([] { throw 7; });
              ::wait(nullptr);
              ::_exit(3);
            }),
            "the former\n");
}

TEST(OnFailure, WaitsForASecondAtMost) {
  EXPECT_EQ(said_by([] {
              const OnFailure one([](const std::string&) { ::pause(); });
              fail_with([] { throw 7; });
            }),
            "the former\n");
}

}  // namespace
}  // namespace hora
