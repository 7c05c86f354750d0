// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/sums.h"

#include "test/core/backend/shm/arenas.h"

#include <gtest/gtest.h>

namespace hora::shm {
namespace {

constexpr Reduction kSum{DType::float32, ReduceOp::sum, 1.0, 1.0, 1};

/// The sum of one element of each rank.
float sum(Sums& sums, const std::vector<float>& elements) {
  std::vector<const void*> inputs;
  for (const float& element : elements) inputs.push_back(&element);
  float result = 0;
  void* output = &result;
  sums.reduce(inputs, {&output, 1}, 1, kSum);
  return result;
}

TEST(Sums, TakeFewRanksInTheirOrder) {
  const auto arenas = make_arenas(4);
  Sums sums(Communicator(arenas[0], 0, 4), {});
  EXPECT_FALSE(sums.by_levels(kSum));
  EXPECT_EQ(sum(sums, {1e8F, 1, -1e8F, 1}), 1.0F);
}

TEST(Sums, TakeThoseOfALevelFirst) {
  const auto arenas = make_arenas(4);
  Sums sums(Communicator(arenas[0], 0, 4), std::vector<int>{2});
  EXPECT_TRUE(sums.by_levels(kSum));
  EXPECT_FALSE(sums.by_levels({DType::int32, ReduceOp::sum, 1.0, 1.0, 1}));
  EXPECT_EQ(sum(sums, {1e8F, 1, -1e8F, 1}), 0.0F);
}

TEST(Sums, OfManyRanksGoByWhatTheirCoresShare) {
  const auto arenas = make_arenas(10);
  for (int rank = 0; rank < 10; ++rank)
    arenas[0]->block(rank).cores.cache.store(static_cast<std::uint32_t>(rank / 5 + 1));
  Sums sums(Communicator(arenas[0], 0, 10), {});
  EXPECT_TRUE(sums.by_levels(kSum));
  EXPECT_EQ(sums.levels().groups(1).size(), 2u);
  Sums flat(Communicator(arenas[0], 0, 10), std::vector<int>{});
  EXPECT_FALSE(flat.by_levels(kSum));
  EXPECT_EQ(sum(sums, {1e8F, 1, 1, 1, 1, -1e8F, 1, 1, 1, 1}), 0.0F);
}

TEST(Sums, TakeMoreElementsThanABlock) {
  const auto arenas = make_arenas(3);
  Sums sums(Communicator(arenas[0], 0, 3), std::vector<int>{2});
  std::vector<std::vector<float>> elements(3, std::vector<float>(5000));
  std::vector<const void*> inputs;
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (std::size_t i = 0; i < 5000; ++i) elements[rank][i] = static_cast<float>(i + rank);
    inputs.push_back(elements[rank].data());
  }
  void* output = elements[0].data();
  sums.reduce(inputs, {&output, 1}, 5000, kSum);
  for (std::size_t i = 0; i < 5000; ++i) ASSERT_EQ(elements[0][i], static_cast<float>(3 * i + 3));
}

}  // namespace
}  // namespace hora::shm
