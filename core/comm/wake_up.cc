// SPDX-License-Identifier: Apache-2.0
#include "core/comm/wake_up.h"

#include "core/base/futex.h"

namespace hora {

void WakeUp::ring() {
  words_.rings.fetch_add(1, std::memory_order_seq_cst);
  if (sleeps()) futex_wake(words_.rings);
}

void WakeUp::count_submission() { words_.rings.fetch_add(1, std::memory_order_seq_cst); }

void WakeUp::wake_for_submission() {
  if (words_.sleep.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(Sleep::any_news))
    futex_wake(words_.rings);
}

void WakeUp::wait(std::uint32_t seen, TimePoint deadline) {
  if (deadline == TimePoint::max()) return futex_wait(words_.rings, seen);
  futex_wait(words_.rings, seen, deadline);
}

}  // namespace hora
