// SPDX-License-Identifier: Apache-2.0
// test/conformance has the collectives of every backend. Here are the results, and how rounds are cut.
#include "core/compose/block_float_sums.h"

#include "core/backend/local/rendezvous.h"
#include "core/base/memory.h"
#include "core/device/host_stream.h"
#include "test/support/block_floats.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
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

/// Calls use(rank, sums) on each rank, and returns the bytes that each of them has asked for.
std::vector<std::size_t> on_ranks(int ranks, std::size_t round_bytes,
                                  const std::function<void(std::size_t rank, BlockFloatSums&)>& use) {
  const auto rendezvous = std::make_shared<local::Rendezvous>(ranks);
  std::vector<std::size_t> asked(static_cast<std::size_t>(ranks));
  run_ranks(ranks, [&](int rank) {
    const auto collective = local::make_local_collective(rendezvous, rank);
    const auto stream = make_host_stream();
    std::shared_ptr<std::byte> memory;
    BlockFloatSums sums(*stream, *collective, rank, ranks, round_bytes, [&](std::size_t bytes) {
      asked[static_cast<std::size_t>(rank)] = bytes;
      memory = allocate_zeroed(bytes);
      return memory.get();
    });
    use(static_cast<std::size_t>(rank), sums);
  });
  return asked;
}

/// The tensors of each rank after a sum of the segments of all ranks, which are [rank][segment].
std::vector<std::vector<Floats>> summed(std::vector<std::vector<Floats>> inputs, const Reduction& reduction,
                                        std::size_t round_bytes) {
  on_ranks(static_cast<int>(inputs.size()), round_bytes, [&](std::size_t rank, BlockFloatSums& sums) {
    std::vector<Segment> segments;
    for (auto& each : inputs[rank]) segments.push_back({each.data(), each.data(), each.size()});
    sums.allreduce(segments, DType::float32, reduction, nullptr);
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

/// The outputs are the beginnings of the inputs, whose elements are `dtype`.
template <typename Element>
void expect_scattered(const std::vector<std::size_t>& counts, DType dtype, std::size_t round_bytes) {
  const std::size_t ranks = counts.size();
  const std::size_t all = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const SlowBlockFloats format(DType::float8_e4m3fn);
  std::vector<Floats> brought;
  std::vector<std::vector<Element>> inputs;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    brought.push_back(normal_floats(static_cast<unsigned>(rank), all));
    inputs.emplace_back(brought.back().begin(), brought.back().end());
  }
  const auto asked =
      on_ranks(static_cast<int>(ranks), round_bytes, [&](std::size_t rank, BlockFloatSums& sums) {
        sums.reducescatter({inputs[rank].data(), inputs[rank].data(), all}, counts, dtype,
                           {DType::float8_e4m3fn, ReduceOp::sum, 2.0, 3.0, 4});
      });
  EXPECT_EQ(asked, std::vector<std::size_t>(ranks, asked[0]));
  std::size_t first = 0;
  for (std::size_t rank = 0; rank < ranks; first += counts[rank++]) {
    Floats sum(counts[rank]);
    for (const Floats& from : brought) {
      Floats part(from.begin() + static_cast<std::ptrdiff_t>(first),
                  from.begin() + static_cast<std::ptrdiff_t>(first + counts[rank]));
      for (float& value : part) value *= 2.0F;
      part = format.rounded(part);
      for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
    }
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_EQ(inputs[rank][i], static_cast<Element>(sum[i] * 0.75F)) << rank << ", element " << i;
    for (std::size_t i = sum.size(); i < all; ++i)
      ASSERT_EQ(inputs[rank][i], static_cast<Element>(brought[rank][i])) << "it is not the output";
  }
}

TEST(BlockFloatSumsTest, GiveEachRankItsPartWhichIsRoundedOnce) {
  const std::vector<std::vector<std::size_t>> parts{
      {77}, {1, 0}, {33, 32}, {0, 4000, 31}, {700, 1500, 1, 0}, {0, 0, 0, 5000}};
  for (const auto& counts : parts) {
    for (const std::size_t round_bytes : {std::size_t{1}, std::size_t{30'000}, kLargeRound}) {
      expect_scattered<float>(counts, DType::float32, round_bytes);
      expect_scattered<double>(counts, DType::float64, round_bytes);
    }
  }
}

TEST(BlockFloatSumsTest, TakeMemoryOfTheSizeOfARoundOnly) {
  constexpr std::size_t kCount = 3'000'000;
  Floats values(kCount);
  const Reduction reduction{DType::float8_e4m3fn, ReduceOp::sum};
  const auto reduced = [&](std::size_t count) {
    return on_ranks(1, kLargeRound, [&](std::size_t /*rank*/, BlockFloatSums& sums) {
      const Segment segment{values.data(), values.data(), count};
      sums.allreduce({&segment, 1}, DType::float32, reduction, nullptr);
    })[0];
  };
  EXPECT_LE(reduced(kCount), kLargeRound * 3);
  EXPECT_EQ(reduced(1), 3 * 16 * kBlockBytes);
  const auto scattered = on_ranks(1, kLargeRound, [&](std::size_t /*rank*/, BlockFloatSums& sums) {
    sums.reducescatter({values.data(), values.data(), kCount}, {{kCount}}, DType::float32, reduction);
  });
  EXPECT_LE(scattered[0], kLargeRound * 3);
}

}  // namespace
}  // namespace hora
