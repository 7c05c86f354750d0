// SPDX-License-Identifier: Apache-2.0
#include "core/comm/alert.h"

#include "core/base/futex.h"

namespace hora {

void Alert::ring() {
  words_.rings.fetch_add(1, std::memory_order_seq_cst);
  if (sleeps()) futex_wake(words_.rings);
}

void Alert::count_submission() { words_.rings.fetch_add(1, std::memory_order_seq_cst); }

void Alert::wake_for_submission() {
  if (words_.sleep.load(std::memory_order_seq_cst) == static_cast<std::uint32_t>(Sleep::any_news))
    futex_wake(words_.rings);
}

void Alert::wait(std::uint32_t seen, TimePoint deadline) {
  if (deadline == TimePoint::max()) return futex_wait(words_.rings, seen);
  futex_wait(words_.rings, seen, deadline);
}

}  // namespace hora
