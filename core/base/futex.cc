// SPDX-License-Identifier: Apache-2.0
#include "core/base/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace hora {
namespace {

using FutexClock = std::chrono::steady_clock;  // CLOCK_MONOTONIC, by which the system measures deadlines

timespec to_timespec(FutexClock::time_point time) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {static_cast<std::time_t>(since / kSecond), static_cast<long>(since % kSecond)};
}

}  // namespace

// As processes share the words, these are not the private operations.

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected) {
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, nullptr, nullptr, 0);
}

void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, FutexClock::time_point deadline) {
  const timespec until = to_timespec(deadline);
  ::syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, expected, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

void futex_wake(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace hora
