// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <thread>
#include <unistd.h>

namespace hora {
namespace {

using std::chrono::seconds;

/// Gives the signal back as it was.
class Stack : public testing::Test {
 protected:
  void SetUp() override { ::sigaction(SIGURG, nullptr, &former_); }
  void TearDown() override { ::sigaction(SIGURG, &former_, nullptr); }

 private:
  struct sigaction former_{};
};

/// The stack of this thread, the main one, as another thread sees it.
std::string seen_by_another() {
  std::string text;
  std::atomic<bool> done = false;
  std::thread other([&] {
    text = main_thread_stack(seconds(10));
    done = true;
  });
  while (!done) {
  }
  other.join();
  return text;
}

TEST_F(Stack, OfTheMainThreadIsToldToAnother) {
  install_stack_signal();
  const std::string text = seen_by_another();
  EXPECT_THAT(text, testing::ContainsRegex("watch_test.*, called from .*watch_test"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("libc.so")));
}

TEST_F(Stack, IsThatOfAnotherHandlerWhichHasBeenAdopted) {
  install_stack_signal();
  static const int pipe = stack_signal().pipe;
  ASSERT_GE(pipe, 0);
  ASSERT_EQ(stack_signal().number, SIGURG);
  std::signal(SIGURG, [](int) {
    const char text[] =
        "Current thread 0x1 (most recent call first):\n  File \"train.py\", line 31 in evaluate\n";
    [[maybe_unused]] const auto written = ::write(pipe, text, sizeof text - 1);
  });
  EXPECT_EQ(seen_by_another(), "") << "a handler of the program's own, which nobody calls";
  adopt_stack_handler();
  EXPECT_EQ(seen_by_another(), "train.py:31 in evaluate");
}

}  // namespace
}  // namespace hora
