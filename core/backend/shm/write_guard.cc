// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_guard.h"

#include "core/base/clock.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <thread>

namespace hora::shm {
namespace {

constexpr std::chrono::milliseconds kWriterTimeout(200);  // a thousand times what a writer that runs needs
constexpr std::chrono::milliseconds kWriterTakes(1);      // a longer time makes a dead writer likely

}  // namespace

void throw_if_left(const Communicator& communicator) {
  for (int place = 0; place < communicator.size(); ++place) {
    if (communicator.block(place).gone.load() != 0)
      throw Error(Code::aborted,
                  fmt::format("rank {} has left in the middle of a call", communicator.rank_at(place)));
  }
}

void leave(const Communicator& communicator, const PeerMemory* peers) noexcept {
  if (communicator.own_block().gone.exchange(1) != 0) return;
  const TimePoint begin = Clock::now();
  for (int place = 0; place < communicator.size(); ++place) {
    TimePoint look_again = begin + kWriterTakes;
    while (place != communicator.place() && communicator.block(place).writing.load() != 0) {
      const TimePoint now = Clock::now();
      if (now >= begin + kWriterTimeout) break;
      if (now >= look_again) {
        if (peers != nullptr && peers->has_ended(communicator.rank_at(place))) break;
        look_again = now + kWriterTakes;
      }
      std::this_thread::yield();
    }
  }
}

}  // namespace hora::shm
