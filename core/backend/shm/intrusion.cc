// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/intrusion.h"

#include "core/comm/control.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <thread>

namespace hora {
namespace {

constexpr std::chrono::milliseconds kPatience(200);  // a thousand times what a writer that runs needs

}  // namespace

void throw_if_left(const Arena& arena, int ranks) {
  for (int rank = 0; rank < ranks; ++rank) {
    if (arena.seat(rank).gone.load() != 0)
      throw Error(Code::aborted, fmt::format("rank {} has left in the middle of a call", rank));
  }
}

void leave(const Arena& arena, int rank, int ranks) noexcept {
  if (arena.seat(rank).gone.exchange(1) != 0) return;
  const TimePoint until = Clock::now() + kPatience;
  for (int other = 0; other < ranks; ++other) {
    while (other != rank && arena.seat(other).intruding.load() != 0 && Clock::now() < until)
      std::this_thread::yield();
  }
}

}  // namespace hora
