// SPDX-License-Identifier: Apache-2.0
#include "core/compose/scan.h"

#include "core/backend/local/rendezvous.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <vector>

namespace hora {
namespace {

/// The scan of `count` elements that are element index + 10 * rank on each rank.
std::vector<std::vector<std::int64_t>> scanned(int ranks, std::size_t count, ReduceOp op) {
  const auto rendezvous = std::make_shared<local::Rendezvous>(ranks);
  std::vector<std::vector<std::int64_t>> results(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank) {
    const auto collective = local::make_local_collective(rendezvous, rank);
    auto& own = results[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < count; ++i) own.push_back(static_cast<std::int64_t>(i) + 10 * rank);
    scan(*collective, rank, ranks, own.data(), own.data(), count, {DType::int64, op});
  });
  return results;
}

TEST(Scan, GivesEachRankTheSumOfThoseUpToIt) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const std::size_t count : {0U, 1U, 2U, 7U, 1000U}) {
      const auto results = scanned(ranks, count, ReduceOp::sum);
      for (int rank = 0; rank < ranks; ++rank) {
        for (std::size_t i = 0; i < count; ++i) {
          const std::int64_t expected = static_cast<std::int64_t>(i) * (rank + 1) + 5 * rank * (rank + 1);
          ASSERT_EQ(results[static_cast<std::size_t>(rank)][i], expected) << ranks << " ranks, rank " << rank;
        }
      }
    }
  }
}

TEST(Scan, KnowsTheOtherReductions) {
  EXPECT_EQ(scanned(3, 2, ReduceOp::max)[1], (std::vector<std::int64_t>{10, 11}));
  EXPECT_EQ(scanned(3, 2, ReduceOp::min)[2], (std::vector<std::int64_t>{0, 1}));
  EXPECT_EQ(scanned(3, 2, ReduceOp::product)[2], (std::vector<std::int64_t>{0, 231}));
}

TEST(Scan, RoundsASixteenBitSumOnce) {
  const auto rendezvous = std::make_shared<local::Rendezvous>(3);
  std::vector<float> results(3);
  run_ranks(3, [&](int rank) {
    const auto collective = local::make_local_collective(rendezvous, rank);
    const float value = rank == 0 ? 256.0F : 0.75F;  // bfloat16: 256 + 0.75 is 256 or 258
    std::uint16_t element = 0;
    kernels::cast(&element, DType::bfloat16, &value, DType::float32, 1);
    scan(*collective, rank, 3, &element, &element, 1, {DType::bfloat16, ReduceOp::sum});
    kernels::cast(&results[static_cast<std::size_t>(rank)], DType::float32, &element, DType::bfloat16, 1);
  });
  EXPECT_EQ(results, (std::vector<float>{256, 256, 258}));
}

}  // namespace
}  // namespace hora
