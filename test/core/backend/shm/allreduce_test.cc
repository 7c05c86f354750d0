// SPDX-License-Identifier: Apache-2.0
// shm_collective_test has random mixtures of buffers.
#include "core/backend/shm/allreduce.h"

#include "test/core/backend/shm/arenas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hora::shm {
namespace {

/// Where a rank's buffer lies.
enum class Memory { arena, reached, out_of_reach };

/// Sums a buffer of so many elements in place, three times. Of the ranks, those before `in_memory` have
/// theirs in `memory`, and all others in the arena.
void sum_in_place(std::size_t count, Memory memory, int in_memory) {
  constexpr int kRanks = 3;
  run_ranks_in_arenas(kRanks, memory == Memory::reached, [&](RankWays& own) {
    Sums sums(own.communicator, {});
    StagedSums staged(own.communicator, own.rounds, sums, own.fastest_copy);
    Allreduce allreduce(own.communicator, own.rounds, own.access, sums, staged, true, {});
    const int rank = own.communicator.place();
    const auto in_arena = own.communicator.arena().allocate(count * sizeof(float));
    std::vector<float> in_private(count);
    float* data = rank < in_memory && memory != Memory::arena ? in_private.data()
                                                              : reinterpret_cast<float*>(in_arena.get());
    for (int round = 0; round < 3; ++round) {
      std::fill_n(data, count, static_cast<float>(rank + round));
      const Segment segment{data, data, count};
      allreduce.run({&segment, 1}, {});
      ASSERT_EQ(std::count(data, data + count, 3.0F + 3.0F * static_cast<float>(round)),
                static_cast<std::ptrdiff_t>(count));
    }
  });
}

TEST(Allreduce, IsExactAtTheBordersOfItsWaysWhereverTheBuffersLie) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{512}, std::size_t{516}, std::size_t{2048}, std::size_t{2052},
        kInlineBytes, kInlineBytes + 4, std::size_t{256 * 1024}, kStageBytes, 3 * kStageBytes + 4}) {
    for (const Memory memory : {Memory::arena, Memory::reached, Memory::out_of_reach}) {
      for (const int in_memory : {1, 3}) {
        SCOPED_TRACE(testing::Message()
                     << bytes << " bytes, " << static_cast<int>(memory) << " of " << in_memory);
        sum_in_place(bytes / sizeof(float), memory, in_memory);
      }
    }
  }
}

}  // namespace
}  // namespace hora::shm
