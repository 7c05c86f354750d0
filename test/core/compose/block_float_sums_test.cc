// SPDX-License-Identifier: Apache-2.0
// test/conformance has the collectives of every backend. Here are the results, and how rounds are cut.
#include "core/compose/block_float_sums.h"

#include "core/backend/local/rendezvous.h"
#include "core/base/memory.h"
#include "core/device/host_stream.h"
#include "test/support/block_floats.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace hora {
namespace {

using Floats = std::vector<float>;
constexpr std::size_t kLargeRound = std::size_t{1} << 20;

Floats normal_floats(unsigned seed, std::size_t count) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  Floats values(count);
  for (auto& value : values) value = normal(random);
  return values;
}

/// The tensors of each rank after a sum of the segments of all ranks, which are [rank][segment].
std::vector<std::vector<Floats>> summed(std::vector<std::vector<Floats>> inputs, const Reduction& reduction,
                                        std::size_t round_bytes) {
  const auto ranks = static_cast<int>(inputs.size());
  const auto rendezvous = std::make_shared<local::Rendezvous>(ranks);
  run_ranks(ranks, [&](int rank) {
    const auto collective = local::make_local_collective(rendezvous, rank);
    const auto stream = make_host_stream();
    std::vector<Segment> segments;
    for (auto& each : inputs[static_cast<std::size_t>(rank)])
      segments.push_back({each.data(), each.data(), each.size()});
    BlockFloatSums sums(*stream, *collective, rank, ranks, round_bytes);
    const auto memory = allocate_zeroed(sums.memory_bytes(segments));
    sums.allreduce(segments, DType::float32, reduction, memory.get(), nullptr);
  });
  return inputs;
}

TEST(BlockFloatSumsTest, RoundTwiceAndSumInTheOrderOfRanks) {
  for (const DType format : {DType::float8_e4m3fn, DType::float8_e5m2}) {
    for (const unsigned ranks : {1, 2, 3, 4}) {
      for (const std::size_t count : {0, 1, 31, 32, 33, 500, 5000}) {
        const Reduction reduction{format, ReduceOp::sum, 0.7, 3.0, 3};
        std::vector<std::vector<Floats>> inputs;
        std::vector<Floats> wholes;
        for (unsigned rank = 0; rank < ranks; ++rank) {
          wholes.push_back(normal_floats(rank, count));
          inputs.push_back({wholes.back()});
        }
        const Floats expected = SlowBlockFloats(format).sum(wholes, 0.7F, 1.0F);
        for (const auto& of_rank : summed(inputs, reduction, kLargeRound))
          ASSERT_EQ(of_rank.front(), expected) << name(format) << ", " << ranks << " ranks, " << count;
      }
    }
  }
}

TEST(BlockFloatSumsTest, DependNeitherOnTheCutNorOnOtherSegments) {
  const Reduction reduction{DType::float8_e4m3fn, ReduceOp::sum};
  const std::vector<std::size_t> counts{5, 700, 0, 64, 2001};
  std::vector<std::vector<Floats>> inputs;
  for (unsigned rank = 0; rank < 3; ++rank) {
    inputs.emplace_back();
    for (std::size_t s = 0; s < counts.size(); ++s)
      inputs.back().push_back(normal_floats(rank * 10 + static_cast<unsigned>(s), counts[s]));
    for (auto& value : inputs.back()[1]) value *= 1e6F;  // its neighbours keep scales of their own
  }
  const auto at_once = summed(inputs, reduction, kLargeRound);
  EXPECT_EQ(summed(inputs, reduction, 1), at_once) << "rounds of 48 blocks";
  EXPECT_EQ(summed(inputs, reduction, 5000), at_once);
  for (std::size_t s = 0; s < counts.size(); ++s) {
    std::vector<std::vector<Floats>> alone;
    for (const auto& of_rank : inputs) alone.push_back({of_rank[s]});
    EXPECT_EQ(summed(alone, reduction, kLargeRound)[2].front(), at_once[0][s]) << s;
  }
}

TEST(BlockFloatSumsTest, KeepWithinTheErrorOfTwoRoundings) {
  for (const auto& [format, step] :
       {std::pair{DType::float8_e4m3fn, 0x1p-4F}, {DType::float8_e5m2, 0x1p-3F}}) {
    const std::vector<std::vector<Floats>> inputs{{normal_floats(1, 4096)}, {normal_floats(2, 4096)}};
    const auto results = summed(inputs, {format, ReduceOp::sum}, kLargeRound);
    for (std::size_t i = 0; i < 4096; ++i) {
      const float a = inputs[0][0][i];
      const float b = inputs[1][0][i];
      // Half a step of each element, and of the sum; and of subnormal elements, that of a block's smallest.
      const float sent = step * (std::fabs(a) + std::fabs(b)) + 0x1p-10F;
      EXPECT_NEAR(results[0][0][i], a + b, sent + step * (std::fabs(a + b) + sent) + 0x1p-10F) << i;
    }
  }
}

TEST(BlockFloatSumsTest, TakeMemoryOfTheSizeOfARoundOnly) {
  const auto rendezvous = std::make_shared<local::Rendezvous>(1);
  const auto collective = local::make_local_collective(rendezvous, 0);
  const auto stream = make_host_stream();
  const Segment large{nullptr, nullptr, 100'000'000};
  EXPECT_LE(BlockFloatSums(*stream, *collective, 0, 4, kLargeRound).memory_bytes({&large, 1}),
            kLargeRound * 9 / 4);
  const Segment small{nullptr, nullptr, 1};
  EXPECT_EQ(BlockFloatSums(*stream, *collective, 0, 4, kLargeRound).memory_bytes({&small, 1}),
            6 * 16 * kBlockBytes);
}

}  // namespace
}  // namespace hora
