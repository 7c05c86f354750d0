// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/transfers.h"

#include "test/core/backend/shm/arenas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hora::shm {
namespace {

/// Every rank offers `bytes` of its own rank's number and takes a piece from the middle of the next one's.
void take_from_the_next(std::size_t bytes, bool access_private) {
  constexpr int kRanks = 3;
  run_ranks_in_arenas(kRanks, access_private, [&](RankWays& own) {
    Transfers transfers(own.communicator, own.rounds, own.access, own.fastest_copy);
    const int rank = own.communicator.place();
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

TEST(Transfers, GoThroughTheInlineBuffersWhenSmall) { take_from_the_next(1000, false); }
TEST(Transfers, GoThroughTheStagesWhenOutOfReach) { take_from_the_next(3 * kStageBytes + 100, false); }
TEST(Transfers, GoDirectlyWhenInReach) { take_from_the_next(200'000, true); }

}  // namespace
}  // namespace hora::shm
