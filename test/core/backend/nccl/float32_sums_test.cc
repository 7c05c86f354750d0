// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/float32_sums.h"

#include "core/base/half.h"
#include "test/support/fake_gpu/nccl_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

namespace hora::nccl {
namespace {

constexpr std::size_t kLong = std::size_t{18} << 20;  // elements: more than the scratch memory has room for

std::uint16_t number(int rank, std::size_t index) {
  return bfloat16_from(static_cast<float>((index * 7 + static_cast<std::size_t>(rank) * 3) % 128));
}

float mean(int ranks, std::size_t index) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += float_from_bfloat16(number(rank, index));
  return sum * 0.25F;
}

void fill(std::byte* data, int rank, std::size_t count) {
  auto* numbers = reinterpret_cast<std::uint16_t*>(data);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = number(rank, i);
}

/// Where it is wrong; `count` if nowhere.
std::size_t first_wrong(const std::byte* data, int ranks, std::size_t begin, std::size_t count) {
  const auto* numbers = reinterpret_cast<const std::uint16_t*>(data);
  for (std::size_t i = 0; i < count; ++i) {
    if (numbers[i] != bfloat16_from(mean(ranks, begin + i))) return i;
  }
  return count;
}

template <typename Main>
void each_summing_rank(NcclRanks& ranks, Main main) {
  const NcclId id = ranks.make_id();
  run_ranks(ranks.count(), [&](int place) {
    NcclRank& rank = ranks.at(place);
    LaneCommunicators lane(rank.context, rank.cuda_stream());
    const auto communicator = lane.connect(id, place, ranks.count());
    Float32Sums sums(lane, *communicator, place, ranks.count());
    main(rank, sums, place);
    rank.finish();
    lane.close(communicator);
  });
  EXPECT_EQ(ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(Float32Sums, SumsInStepsThatFitIntoItsMemory) {
  NcclRanks ranks(2);
  each_summing_rank(ranks, [&](NcclRank& rank, Float32Sums& sums, int place) {
    const std::size_t most = rank.gpu->memory().taken + (std::size_t{32} << 20);
    const auto data = rank.gpu->allocate(kLong * 2);
    fill(data.get(), place, kLong);
    // The short segment shares a step with the long segment; the long segment ends in another step.
    const Segment segments[] = {{data.get(), data.get(), 33},
                                {data.get() + 128, data.get() + 128, kLong - 64}};
    sums.allreduce(segments, DType::bfloat16, 0.25);
    rank.finish();
    EXPECT_EQ(rank.gpu->memory().taken, most + kLong * 2);
    EXPECT_EQ(first_wrong(data.get(), 2, 0, 33), 33U);
    EXPECT_EQ(first_wrong(data.get() + 128, 2, 64, kLong - 64), kLong - 64);
  });
}

TEST(Float32Sums, LeavesInputsAsTheyAreUnlessTheyAreOutputs) {
  NcclRanks ranks(3);
  each_summing_rank(ranks, [&](NcclRank& rank, Float32Sums& sums, int place) {
    const std::size_t count = 1000;
    const auto input = rank.gpu->allocate(count * 2);
    const auto output = rank.gpu->allocate(count * 2);
    fill(input.get(), place, count);
    const Segment segment{input.get(), output.get(), count};
    sums.allreduce({&segment, 1}, DType::bfloat16, 0.25);
    rank.finish();
    EXPECT_EQ(first_wrong(output.get(), 3, 0, count), count);
    const auto* numbers = reinterpret_cast<const std::uint16_t*>(input.get());
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(numbers[i], number(place, i));
  });
}

TEST(Float32Sums, ScattersPartsOfAnyLength) {
  NcclRanks ranks(3);
  each_summing_rank(ranks, [&](NcclRank& rank, Float32Sums& sums, int place) {
    const std::vector<std::size_t> counts{9'000'000, 0, 17};
    const auto input = rank.gpu->allocate(9'000'017 * 2);
    fill(input.get(), place, 9'000'017);
    const auto own = counts[static_cast<std::size_t>(place)];
    const auto output = rank.gpu->allocate(own * 2);
    sums.reducescatter(input.get(), output.get(), counts, DType::bfloat16, 0.25);
    rank.finish();
    EXPECT_EQ(first_wrong(output.get(), 3, place == 2 ? 9'000'000 : 0, own), own);
  });
}

}  // namespace
}  // namespace hora::nccl
