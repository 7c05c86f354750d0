// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/partial_sum.h"

#include "core/base/half.h"
#include "test/support/elements.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

namespace hora::tcp {
namespace {

// In steps, or all inputs at once: the same bits, for whatever a sum of two takes.
TEST(PartialSum, OfTwoRanksHasTheBitsOfTheReductionAtOnce) {
  std::mt19937 random(1);
  for (const DType dtype : reduced_dtypes()) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      for (const double prescale : {1.0, 0.75}) {
        for (const int divisor : {1, 3}) {
          const Reduction reduction{dtype, op, prescale, prescale * 2, divisor};
          if (!PartialSum::travels(reduction)) continue;
          const std::size_t count = 1000;
          const std::size_t bytes = count * size_of(reduction.dtype);
          std::vector<std::byte> a(bytes);
          std::vector<std::byte> b(bytes);
          // Small exponents of any format: sums overflow nowhere, and no NaN has bits to choose.
          for (auto* one : {&a, &b}) {
            for (auto& byte : *one) byte = static_cast<std::byte>(random() % 0x40);
          }
          std::vector<std::byte> expected(bytes);
          std::vector<std::byte> result(bytes);
          const std::array<const void*, 2> inputs{a.data(), b.data()};
          void* to = expected.data();
          kernels::reduce(inputs, {&to, 1}, count, reduction);

          const PartialSum sum(reduction);
          std::vector<std::byte> low(count * sum.each());
          std::vector<std::byte> high(count * sum.each());
          const Segment of_a{a.data(), result.data(), count};
          const Segment of_b{b.data(), result.data(), count};
          sum.load(low.data(), SegmentView({&of_a, 1}, size_of(reduction.dtype)), 0, count);
          sum.load(high.data(), SegmentView({&of_b, 1}, size_of(reduction.dtype)), 0, count);
          sum.add(high.data(), low.data(), high.data(), count);
          sum.store(SegmentView({&of_a, 1}, size_of(reduction.dtype)), 0, count, high.data());
          ASSERT_EQ(std::memcmp(result.data(), expected.data(), bytes), 0)
              << name(reduction.dtype) << " " << name(op) << " " << prescale << " " << divisor;
        }
      }
    }
  }
}

TEST(PartialSum, KeepsWhatSixteenBitsWouldLose) {
  const PartialSum sum({DType::float16, ReduceOp::sum, 1.0, 1.0, 1});
  std::uint16_t large = float16_from(2048.0F);
  std::uint16_t one = float16_from(1.0F);
  std::array<float, 2> sums{};
  const Segment of_large{&large, &large, 1};
  const Segment of_one{&one, &one, 1};
  auto* at = reinterpret_cast<std::byte*>(sums.data());
  sum.load(at, SegmentView({&of_large, 1}, 2), 0, 1);
  sum.load(at + 4, SegmentView({&of_one, 1}, 2), 0, 1);
  for (int i = 0; i < 8; ++i) sum.add(at, at, at + 4, 1);
  sum.store(SegmentView({&of_large, 1}, 2), 0, 1, at);
  EXPECT_EQ(large, float16_from(2056.0F));
}

TEST(PartialSum, AveragesOfIntegersDoNotTravel) {
  EXPECT_FALSE(PartialSum::travels({DType::int8, ReduceOp::sum, 1.0, 1.0, 3}));
  EXPECT_TRUE(PartialSum::travels({DType::int8, ReduceOp::sum, 1.0, 1.0, 1}));
  EXPECT_FALSE(PartialSum::travels({DType::int64, ReduceOp::sum, 1.0, 1.0, 3}));
  EXPECT_TRUE(PartialSum::travels({DType::bfloat16, ReduceOp::sum, 1.0, 1.0, 3}));
}

}  // namespace
}  // namespace hora::tcp
