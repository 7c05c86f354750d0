// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/reducescatter.h"

#include "test/core/backend/shm/arenas.h"

#include <gtest/gtest.h>

#include <vector>

namespace hora::shm {
namespace {

/// Each rank takes its range of the sums, and leaves the inputs as they are. `begins`: by rank, and the end.
void take_ranges(const std::vector<std::size_t>& begins, bool in_arena, bool access_private) {
  const auto ranks = static_cast<int>(begins.size()) - 1;
  const std::size_t count = begins.back();
  run_ranks_in_arenas(ranks, access_private, [&](RankWays& own) {
    Sums sums(own.communicator, {});
    StagedSums staged(own.communicator, own.rounds, sums, own.fastest_copy);
    Reducescatter reducescatter(own.communicator, own.rounds, own.access, sums, staged);
    const auto rank = static_cast<std::size_t>(own.communicator.place());
    const auto shared = own.communicator.arena().allocate(count * sizeof(float));
    std::vector<float> private_memory(count);
    float* input = in_arena ? reinterpret_cast<float*>(shared.get()) : private_memory.data();
    const auto element = [](std::size_t of, std::size_t i) { return static_cast<float>(i % 1000 + 7 * of); };
    for (std::size_t i = 0; i < count; ++i) input[i] = element(rank, i);
    std::vector<float> output(begins[rank + 1] - begins[rank]);
    for (int round = 0; round < 2; ++round) {
      reducescatter.run({input, output.data(), count}, begins[rank], begins[rank + 1], {});
      for (std::size_t i = begins[rank]; i < begins[rank + 1]; ++i) {
        float sum = 0;
        for (int other = 0; other < ranks; ++other) sum += element(static_cast<std::size_t>(other), i);
        ASSERT_EQ(output[i - begins[rank]], sum) << i;
      }
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(input[i], element(rank, i)) << i;
    }
  });
}

TEST(Reducescatter, LeavesEachRankItsRangeWhereverTheInputsLie) {
  constexpr std::size_t kInSlot = kInlineBytes / sizeof(float);
  for (const std::vector<std::size_t>& begins : {std::vector<std::size_t>{0, 0, 0},
                                                 {0, 5, 5, kInSlot},
                                                 {0, 5, 5, kInSlot + 1},
                                                 {0, 1, 200'000, 200'000, 200'001}}) {
    for (const bool in_arena : {false, true}) {
      for (const bool access_private : {false, true}) {
        SCOPED_TRACE(testing::Message() << begins.back() << in_arena << access_private);
        take_ranges(begins, in_arena, access_private);
      }
    }
  }
}

}  // namespace
}  // namespace hora::shm
