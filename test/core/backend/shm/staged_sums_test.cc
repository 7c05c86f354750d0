// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/staged_sums.h"

#include "test/core/backend/shm/arenas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hora::shm {
namespace {

constexpr std::size_t kStageCount = kStageBytes / sizeof(float);

/// Small whole numbers, other ones on each rank: their sums are exact.
float element(int rank, std::size_t i) {
  return static_cast<float>((i + 7 * static_cast<std::size_t>(rank)) % 1000);
}

float sum_of_elements(int ranks, std::size_t i) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += element(rank, i);
  return sum;
}

std::vector<float> elements(int rank, std::size_t count) {
  std::vector<float> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = element(rank, i);
  return made;
}

/// Runs `body` on ranks that have met, three times in a row.
void after_rendezvous(int ranks, const std::function<void(StagedSums&, int)>& body) {
  run_ranks_in_arenas(ranks, false, [&](RankWays& own) {
    Sums sums(own.communicator, {});
    StagedSums staged(own.communicator, own.rounds, sums, own.fastest_copy);
    for (int round = 0; round < 3; ++round) {
      own.rounds.open(Call::allreduce, 0, 0);
      own.rounds.meet();
      body(staged, own.communicator.place());
    }
  });
}

struct Case {
  int ranks;
  std::size_t count;
  std::size_t piece;      // elements of each segment
  bool in_order = false;  // of memory: then a share is one piece, whatever segments it has
};

class StagedSumsOf : public testing::TestWithParam<Case> {};

TEST_P(StagedSumsOf, ComeWhereTheyBelong) {
  // One by one: clang 14 lets no lambda use structured bindings.
  const int ranks = GetParam().ranks;
  const std::size_t count = GetParam().count;
  const std::size_t piece = GetParam().piece;
  const bool in_order = GetParam().in_order;
  for (const bool in_place : {true, false}) {
    after_rendezvous(ranks, [&](StagedSums& staged, int rank) {
      auto input = elements(rank, count);
      const auto before = input;
      std::vector<float> elsewhere(count, -1);
      auto& output = in_place ? input : elsewhere;
      std::vector<Segment> segments;
      for (std::size_t i = 0; i < count; i += piece)
        segments.push_back({input.data() + i, output.data() + i, std::min(piece, count - i)});
      if (!in_order) std::reverse(segments.begin(), segments.end());
      staged.allreduce(segments, {});
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(output[i], sum_of_elements(ranks, i)) << i;
      if (!in_place) {
        ASSERT_EQ(input, before);
      }
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, StagedSumsOf,
                         testing::Values(Case{2, 1, 1}, Case{3, 17, 17}, Case{2, 10'000, 10'000},
                                         Case{3, 10'000, 777}, Case{3, 10'000, 777, true},
                                         Case{2, 3 * kStageCount + 21, 3 * kStageCount + 21},
                                         Case{4, 2 * kStageCount + 5, 100'001}, Case{1, 1000, 1000}));

TEST(StagedSums, ScattersThemOverRangesThatBeginAnywhere) {
  constexpr std::size_t kCount = 3 * kStageCount + 11;
  // Before, over and after the borders of parts, and none.
  const std::vector<std::size_t> begins{0, kStageCount - 100, kStageCount - 100, 2 * kStageCount + 1, kCount};
  const auto ranks = static_cast<int>(begins.size()) - 1;
  after_rendezvous(ranks, [&](StagedSums& staged, int rank) {
    const std::size_t begin = begins[static_cast<std::size_t>(rank)];
    const std::size_t end = begins[static_cast<std::size_t>(rank) + 1];
    auto input = elements(rank, kCount);
    std::vector<float> output(end - begin);
    staged.reducescatter({input.data(), output.data(), kCount}, begin, end, {});
    for (std::size_t i = begin; i < end; ++i) ASSERT_EQ(output[i - begin], sum_of_elements(ranks, i)) << i;
    ASSERT_EQ(input, elements(rank, kCount));
  });
}

TEST(StagedSums, NeedNoOutputWhereARankGetsNone) {
  constexpr std::size_t kCount = 2 * kStageCount;
  after_rendezvous(2, [&](StagedSums& staged, int rank) {
    const auto input = elements(rank, kCount);
    std::vector<float> output(rank == 1 ? kCount : 0);
    staged.reducescatter({input.data(), rank == 1 ? output.data() : nullptr, kCount}, 0, output.size(), {});
    for (std::size_t i = 0; i < output.size(); ++i) ASSERT_EQ(output[i], sum_of_elements(2, i)) << i;
  });
}

}  // namespace
}  // namespace hora::shm
