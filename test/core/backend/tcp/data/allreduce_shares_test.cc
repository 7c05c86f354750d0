// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/allreduce_shares.h"

#include "test/support/meshes.h"

#include <gtest/gtest.h>

#include <random>

namespace hora::tcp {
namespace {

using Floats = std::vector<float>;

std::vector<Floats> random_inputs(int ranks, std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<Floats> inputs(static_cast<std::size_t>(ranks), Floats(count));
  for (auto& input : inputs) {
    for (auto& x : input) x = normal(random);
  }
  return inputs;
}

/// In rank order, at once.
Floats sum_of(const std::vector<Floats>& inputs, const Reduction& reduction) {
  std::vector<const void*> from;
  for (const auto& input : inputs) from.push_back(input.data());
  Floats sum(inputs.front().size());
  void* to = sum.data();
  kernels::reduce(from, {&to, 1}, sum.size(), reduction);
  return sum;
}

const Reduction kMean{DType::float32, ReduceOp::sum, 1.0, 1.0, 3};

TEST(AllreduceShares, HasTheBitsOfOneSumInRankOrderAtAnyLength) {
  // Around where shares and segments end: 16,384 elements are a segment of 64 KiB.
  for (const int ranks : {2, 3, 8}) {
    for (const std::size_t count : {0, 1, 7, 8193, 16 * 16384, 16 * 16384 + 1, 1'500'000}) {
      const auto inputs = random_inputs(ranks, count);
      const Floats expected = sum_of(inputs, kMean);
      run_meshes(ranks, [&](int rank, Mesh& mesh) {
        Floats data = inputs[static_cast<std::size_t>(rank)];
        const Segment segment{data.data(), data.data(), count};
        Scratch scratch;
        allreduce_shares(mesh, SegmentView({&segment, 1}, 4), kMean, scratch);
        EXPECT_EQ(data, expected) << ranks << " ranks, " << count << " elements";
      });
    }
  }
}

/// Notes how much it is given at a time.
class Witness final : public Packing {
 public:
  void pack(std::size_t /*begin*/, std::size_t count) override { note(count); }
  void unpack(std::size_t /*begin*/, std::size_t count) override { note(count); }

  std::size_t most = 0;
  std::size_t all = 0;

 private:
  void note(std::size_t count) {
    most = std::max(most, count);
    all += count;
  }
};

TEST(AllreduceShares, PacksAndUnpacksASegmentAtATime) {
  const std::size_t count = 1'000'000;
  const auto inputs = random_inputs(2, count);
  const Floats expected = sum_of(inputs, kMean);
  run_meshes(2, [&](int rank, Mesh& mesh) {
    Floats data = inputs[static_cast<std::size_t>(rank)];
    const Segment segment{data.data(), data.data(), count};
    Scratch scratch;
    Witness packing;
    allreduce_shares(mesh, SegmentView({&segment, 1}, 4, &packing), kMean, scratch);
    EXPECT_EQ(data, expected);
    EXPECT_EQ(packing.all, 2 * count);
    EXPECT_LE(packing.most * 4, 256u * 1024) << "in a core's cache";
  });
}

TEST(AllreduceShares, AtOnceHasTheSameBits) {
  const auto inputs = random_inputs(5, 999);
  const Floats expected = sum_of(inputs, kMean);
  run_meshes(5, [&](int rank, Mesh& mesh) {
    Floats data = inputs[static_cast<std::size_t>(rank)];
    const std::array<Segment, 2> segments{Segment{data.data(), data.data(), 100},
                                          Segment{data.data() + 100, data.data() + 100, 899}};
    Scratch scratch;
    allreduce_at_once(mesh, SegmentView(segments, 4), kMean, scratch);
    EXPECT_EQ(data, expected);
  });
}

TEST(ReducescatterShares, LeavesEveryRankItsOwn) {
  const auto inputs = random_inputs(3, 700'000);
  const Floats expected = sum_of(inputs, kMean);
  const std::array<std::size_t, 4> bounds{0, 10, 10, 700'000};
  run_meshes(3, [&](int rank, Mesh& mesh) {
    const auto own = static_cast<std::size_t>(rank);
    Floats output(bounds[own + 1] - bounds[own]);
    Scratch scratch;
    reducescatter_shares(mesh, inputs[own].data(), output.data(), bounds, kMean, scratch);
    for (std::size_t i = 0; i < output.size(); ++i) ASSERT_EQ(output[i], expected[bounds[own] + i]);
  });
}

}  // namespace
}  // namespace hora::tcp
