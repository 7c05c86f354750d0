// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_guard.h"

#include "core/base/clock.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <thread>

namespace hora::shm {
namespace {

constexpr std::chrono::milliseconds kWritersPatience(200);  // a thousand times what a writer that runs needs

}  // namespace

void throw_if_left(const Circle& circle) {
  for (int place = 0; place < circle.size(); ++place) {
    if (circle.seat(place).gone.load() != 0)
      throw Error(Code::aborted,
                  fmt::format("rank {} has left in the middle of a call", circle.rank_at(place)));
  }
}

void leave(const Circle& circle) noexcept {
  if (circle.own_seat().gone.exchange(1) != 0) return;
  const TimePoint until = Clock::now() + kWritersPatience;
  for (int place = 0; place < circle.size(); ++place) {
    while (place != circle.place() && circle.seat(place).writing.load() != 0 && Clock::now() < until)
      std::this_thread::yield();
  }
}

}  // namespace hora::shm
