// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_guard.h"

#include "core/base/clock.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <thread>

namespace hora::shm {
namespace {

constexpr std::chrono::milliseconds kWriterTimeout(200);  // a thousand times what a writer that runs needs

}  // namespace

void throw_if_left(const Communicator& communicator) {
  for (int place = 0; place < communicator.size(); ++place) {
    if (communicator.block(place).gone.load() != 0)
      throw Error(Code::aborted,
                  fmt::format("rank {} has left in the middle of a call", communicator.rank_at(place)));
  }
}

void leave(const Communicator& communicator) noexcept {
  if (communicator.own_block().gone.exchange(1) != 0) return;
  const TimePoint until = Clock::now() + kWriterTimeout;
  for (int place = 0; place < communicator.size(); ++place) {
    while (place != communicator.place() && communicator.block(place).writing.load() != 0 &&
           Clock::now() < until)
      std::this_thread::yield();
  }
}

}  // namespace hora::shm
