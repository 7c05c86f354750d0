// SPDX-License-Identifier: Apache-2.0
#include "core/comm/alert.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace hora {
namespace {

// The word may be shared between processes, so these are not the private futexes.
void wake_all(std::atomic<std::uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

timespec to_timespec(TimePoint time) {
  const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
  constexpr std::int64_t kSecond = 1'000'000'000;
  return {static_cast<std::time_t>(since / kSecond), static_cast<long>(since % kSecond)};
}

}  // namespace

void Alert::ring() {
  words_.rings.fetch_add(1, std::memory_order_seq_cst);
  if (sleeps()) wake_all(words_.rings);
}

void Alert::ring_for_submission() {
  words_.rings.fetch_add(1, std::memory_order_seq_cst);
  if (words_.sleep.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(Sleep::any_news))
    wake_all(words_.rings);
}

void Alert::wait(std::uint32_t seen, TimePoint deadline) {
  if (deadline == TimePoint::max()) {
    ::syscall(SYS_futex, &words_.rings, FUTEX_WAIT, seen, nullptr, nullptr, 0);
    return;
  }
  const timespec until = to_timespec(deadline);  // of CLOCK_MONOTONIC, which is Clock's
  ::syscall(SYS_futex, &words_.rings, FUTEX_WAIT_BITSET, seen, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
}

}  // namespace hora
