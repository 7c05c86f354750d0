// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hwy/cache_control.h>
#include <sched.h>

#include <chrono>

namespace hora {

/// Looks again and again whether `condition` holds, for about as long as going to sleep and being woken would
/// cost. Returns whether it did. `crowded`: more threads wait than there are cores, so the core is left to
/// others in between.
template <typename Condition>
bool spin(bool crowded, const Condition& condition) {
  constexpr std::chrono::microseconds kSpin{20};
  constexpr int kLooks = 32;  // between two looks at the clock, which takes longer
  if (condition()) return true;
  const auto until = std::chrono::steady_clock::now() + kSpin;
  do {
    if (crowded) ::sched_yield();
    for (int i = 0; i < (crowded ? 1 : kLooks); ++i) {
      if (condition()) return true;
      if (!crowded) hwy::Pause();  // saves energy, and leaves more to the core's other thread
    }
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

}  // namespace hora
