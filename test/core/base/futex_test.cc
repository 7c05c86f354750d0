// SPDX-License-Identifier: Apache-2.0
#include "core/base/futex.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

using std::chrono::steady_clock;

TEST(Futex, DoesNotSleepWhereTheWordIsAnotherOne) {
  std::atomic<std::uint32_t> word{1};
  futex_wait(word, 0);
  futex_wait(word, 0, steady_clock::time_point::max());
}

TEST(Futex, SleepsUntilItsDeadlineWhereNobodyWakes) {
  std::atomic<std::uint32_t> word{0};
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(5);
  while (steady_clock::now() < deadline) futex_wait(word, 0, deadline);
  EXPECT_GE(steady_clock::now(), deadline);
}

TEST(Futex, WakesAllWhoSleep) {
  std::atomic<std::uint32_t> word{0};
  const auto sleep = [&word] {
    while (word.load() == 0) futex_wait(word, 0);
  };
  std::thread one(sleep);
  std::thread other(sleep);
  word = 1;
  futex_wake(word);
  one.join();
  other.join();
}

}  // namespace
}  // namespace hora
