// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/allreduce_halving.h"

#include "core/base/half.h"
#include "test/support/meshes.h"

#include <gtest/gtest.h>

#include <bit>

namespace hora::tcp {
namespace {

float value(int rank, std::size_t index) {
  return 1.0F / static_cast<float>(static_cast<std::size_t>(rank) * 13 + index % 97 + 1);
}

void reduce(Mesh& mesh, std::vector<float>& data) {
  const Segment segment{data.data(), data.data(), data.size()};
  Scratch scratch;
  allreduce_halving(mesh, SegmentView({&segment, 1}, 4),
                    PartialSum({DType::float32, ReduceOp::sum, 1.0, 1.0, 1}), scratch);
}

std::vector<float> input(int rank, std::size_t count) {
  std::vector<float> data(count);
  for (std::size_t i = 0; i < count; ++i) data[i] = value(rank, i);
  return data;
}

TEST(AllreduceHalving, ASumDependsOnNeitherTheLengthNorThePlaceOfItsElement) {
  for (const int ranks : {2, 3, 4, 6, 8, 9, 11}) {
    std::mutex mutex;
    std::vector<float> all;  // the sums of value(., 0 to 96)
    for (const std::size_t count : {97, 97 * 90, 97 * 2000}) {
      run_meshes(ranks, [&](int rank, Mesh& mesh) {
        std::vector<float> data = input(rank, count);
        reduce(mesh, data);
        const std::lock_guard lock(mutex);
        if (all.empty()) all.assign(data.begin(), data.begin() + 97);
        for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], all[i % 97]) << ranks << " " << count;
      });
    }
  }
}

TEST(AllreduceHalving, TalksToAsManyAsThePowerOfTwoHas) {
  for (const int ranks : {2, 3, 8, 9, 24}) {
    const auto required = run_meshes(ranks, [](int rank, Mesh& mesh) {
      std::vector<float> data = input(rank, 10);
      reduce(mesh, data);
    });
    const int rounds = std::bit_width(static_cast<unsigned>(ranks)) - 1;
    for (const int count : required) EXPECT_LE(count, rounds + 1);
  }
}

TEST(AllreduceHalving, IsRightAtAnyLengthAndRoundsOnce) {
  for (const std::size_t count : {0, 1, 2, 1000, 8192, 8193, 200'001}) {
    run_meshes(6, [count](int rank, Mesh& mesh) {
      std::vector<std::uint16_t> data(count, bfloat16_from(rank == 1 ? 256.0F : 1.0F));
      const Segment segment{data.data(), data.data(), count};
      Scratch scratch;
      allreduce_halving(mesh, SegmentView({&segment, 1}, 2),
                        PartialSum({DType::bfloat16, ReduceOp::sum, 1.0, 1.0, 1}), scratch);
      for (const auto bits : data) ASSERT_EQ(bits, bfloat16_from(261.0F));
    });
  }
}

TEST(ReducescatterHalving, LeavesEveryRankWhatAllreduceWould) {
  for (const int ranks : {2, 3, 5, 8, 11}) {
    std::vector<std::size_t> bounds{0};
    for (int rank = 0; rank < ranks; ++rank)
      bounds.push_back(bounds.back() + static_cast<std::size_t>(rank % 3) * 5000);
    run_meshes(ranks, [&](int rank, Mesh& mesh) {
      const auto own = static_cast<std::size_t>(rank);
      std::vector<float> expected = input(rank, bounds.back());
      const std::vector<float> original = expected;
      reduce(mesh, expected);
      std::vector<float> output(bounds[own + 1] - bounds[own]);
      Scratch scratch;
      reducescatter_halving(mesh, original.data(), output.data(), bounds,
                            {DType::float32, ReduceOp::sum, 1.0, 1.0, 1}, scratch);
      for (std::size_t i = 0; i < output.size(); ++i) ASSERT_EQ(output[i], expected[bounds[own] + i]);
    });
  }
}

}  // namespace
}  // namespace hora::tcp
