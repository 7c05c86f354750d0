// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/allreduce_ring.h"

#include "core/base/half.h"
#include "test/support/meshes.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

TEST(AllreduceRing, TalksToTwoAndIsRightAtAnyLength) {
  // A lap of nine ranks takes 9 * 4 * 65,536 elements.
  for (const std::size_t count : {0, 1, 8, 9, 10, 1000, 9 * 4 * 65536, 9 * 4 * 65536 + 5}) {
    const auto required = run_meshes(9, [count](int rank, Mesh& mesh) {
      std::vector<std::int32_t> data(count);
      for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<int>(i % 1000) * (rank + 1);
      const Segment segment{data.data(), data.data(), count};
      Scratch scratch;
      const PartialSum sum({DType::int32, ReduceOp::sum, 1.0, 1.0, 1});
      allreduce_ring(mesh, SegmentView({&segment, 1}, 4), sum, scratch);
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(data[i], static_cast<int>(i % 1000) * 45) << i;
    });
    EXPECT_EQ(required, std::vector<int>(9, 2));
  }
}

TEST(AllreduceRing, RoundsSixteenBitSumsOnceAtTheEnd) {
  run_meshes(17, [](int rank, Mesh& mesh) {
    std::vector<std::uint16_t> data(40'000, float16_from(rank == 3 ? 2048.0F : 1.0F));
    const Segment segment{data.data(), data.data(), data.size()};
    Scratch scratch;
    allreduce_ring(mesh, SegmentView({&segment, 1}, 2),
                   PartialSum({DType::float16, ReduceOp::sum, 1.0, 1.0, 1}), scratch);
    for (const auto bits : data) ASSERT_EQ(bits, float16_from(2064.0F));
  });
}

TEST(AllreduceRing, GivesTheSameBitsEachTimeAndOnAllRanks) {
  std::mutex mutex;
  std::vector<std::vector<float>> results;
  for (int run = 0; run < 3; ++run) {
    run_meshes(5, [&](int rank, Mesh& mesh) {
      std::vector<float> data(300'000);
      for (std::size_t i = 0; i < data.size(); ++i)
        data[i] = 1.0F / static_cast<float>(static_cast<std::size_t>(rank) * 7 + i + 1);
      const Segment segment{data.data(), data.data(), data.size()};
      Scratch scratch;
      allreduce_ring(mesh, SegmentView({&segment, 1}, 4),
                     PartialSum({DType::float32, ReduceOp::sum, 1.0, 1.0, 5}), scratch);
      const std::lock_guard lock(mutex);
      results.push_back(std::move(data));
    });
  }
  for (const auto& result : results) EXPECT_EQ(result, results.front());
}

}  // namespace
}  // namespace hora::tcp
