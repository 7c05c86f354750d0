// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/broadcast.h"

#include "test/core/backend/shm/arenas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hora::shm {
namespace {

/// Every rank in turn brings pieces of so many bytes to three others.
void bring_to_all(const std::vector<std::size_t>& lengths, bool access_private) {
  constexpr int kRanks = 4;
  run_ranks_in_arenas(kRanks, access_private, [&](RankWays& own) {
    Broadcast broadcast(own.communicator, own.rounds, own.access, own.fastest_copy);
    const int rank = own.communicator.place();
    for (int root = 0; root < kRanks; ++root) {
      std::vector<std::vector<std::byte>> memory;
      std::vector<std::span<std::byte>> pieces;
      for (const std::size_t length : lengths) {
        memory.emplace_back(length, std::byte{static_cast<unsigned char>(16 * rank + memory.size())});
        pieces.emplace_back(memory.back());
      }
      broadcast.run(pieces, root);
      for (std::size_t i = 0; i < lengths.size(); ++i) {
        const std::byte expected{static_cast<unsigned char>(16 * root + i)};
        ASSERT_EQ(std::ranges::count(memory[i], expected), static_cast<std::ptrdiff_t>(lengths[i]));
      }
    }
  });
}

TEST(Broadcast, GoesThroughTheInlineBufferWhenSmall) { bring_to_all({1000, 0, 1}, false); }
TEST(Broadcast, GoesDirectlyWhenInReach) { bring_to_all({200'001, 3, 1'000'000}, true); }
TEST(Broadcast, GoesThroughTheStageWhenOutOfReach) {
  bring_to_all({kStageBytes / 2, 5, 3 * kStageBytes}, false);
}
TEST(Broadcast, MayEndAtTheHalfOfTheStage) { bring_to_all({kStageBytes / 2, kStageBytes}, false); }

}  // namespace
}  // namespace hora::shm
