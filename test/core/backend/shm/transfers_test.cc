// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/transfers.h"

#include "test/core/backend/shm/arenas.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hora {
namespace {

/// Every rank offers `bytes` of its own rank's number and takes a piece from the middle of the next one's.
void take_from_the_next(std::size_t bytes, bool reach_private) {
  constexpr int kRanks = 3;
  const auto arenas = make_arenas(kRanks);
  run_ranks(kRanks, [&](int rank) {
    const Circle circle(arenas[static_cast<std::size_t>(rank)], rank, kRanks);
    Rounds rounds(circle);
    Reach reach(circle, reach_private ? make_thread_memory() : nullptr);
    StageCopy stage_copy;
    Transfers transfers(circle, rounds, reach, stage_copy);
    std::vector<std::byte> offer(bytes, std::byte{static_cast<unsigned char>(rank + 1)});
    const int next = (rank + 1) % kRanks;
    std::vector<std::byte> taken(bytes / 2);
    const Take take{next, bytes / 4, taken.size(), taken.data()};
    for (int round = 0; round < 3; ++round) {
      std::fill(taken.begin(), taken.end(), std::byte{0});
      transfers.run({Call::alltoall, bytes * kRanks, bytes, 0}, offer.data(), bytes, {&take, 1});
      const std::byte expected{static_cast<unsigned char>(next + 1)};
      ASSERT_EQ(std::count(taken.begin(), taken.end(), expected), static_cast<std::ptrdiff_t>(taken.size()));
    }
  });
}

TEST(Transfers, GoThroughTheSlotsWhenSmall) { take_from_the_next(1000, false); }
TEST(Transfers, GoThroughTheStagesWhenOutOfReach) { take_from_the_next(3 * kStageBytes + 100, false); }
TEST(Transfers, GoDirectlyWhenInReach) { take_from_the_next(200'000, true); }

}  // namespace
}  // namespace hora
