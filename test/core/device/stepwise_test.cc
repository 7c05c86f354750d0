// SPDX-License-Identifier: Apache-2.0
#include "core/device/stepwise.h"

#include "test/support/elements.h"

#include <gtest/gtest.h>

#include <array>

namespace hora {
namespace {

/// All ranks' elements in two steps: the first ranks', then the others'.
Elements in_two_steps(const std::vector<Elements>& inputs, std::size_t first, const Reduction& reduction) {
  Stepwise steps(reduction);
  const std::size_t count = inputs.front().count();
  std::vector<std::byte> made[2];
  std::array<const void*, 2> partials{};
  for (std::size_t part = 0; part < 2; ++part) {
    std::vector<const void*> from;
    for (std::size_t rank = part == 0 ? 0 : first; rank < (part == 0 ? first : inputs.size()); ++rank)
      from.push_back(inputs[rank].data());
    made[part].resize(count * steps.partial_bytes());
    steps.begin(from, made[part].data(), count);
    partials[part] = made[part].data();
  }
  std::vector<std::byte> whole(count * steps.partial_bytes());
  steps.go_on(partials, whole.data(), count);
  Elements result(reduction.dtype, count);
  Elements same(reduction.dtype, count);
  const void* last = whole.data();
  const std::array<void*, 2> outputs{result.data(), same.data()};
  steps.end({&last, 1}, outputs, count);
  EXPECT_EQ(result, same);
  return result;
}

TEST(Stepwise, GivesWhatOneStepGives) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
      constexpr std::size_t kCount = 5000;  // more than are widened at a time
      std::vector<Elements> inputs(5, Elements(dtype, kCount));
      for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
        for (std::size_t i = 0; i < kCount; ++i) inputs[rank].set(i, static_cast<int>((i + 2 * rank) % 3));
      }
      const Reduction reduction{dtype, op, 2.0, 0.5, 4};
      std::vector<const void*> all;
      for (const auto& input : inputs) all.push_back(input.data());
      Elements expected(dtype, kCount);
      void* output = expected.data();
      kernels::reduce(all, {&output, 1}, kCount, reduction);
      EXPECT_EQ(in_two_steps(inputs, 3, reduction), expected) << name(dtype) << " " << name(op);
    }
  }
}

TEST(Stepwise, RoundsTo16BitsOnce) {
  std::vector<Elements> inputs(4, Elements(DType::float16, 1));
  inputs[0].set(0, 2048);  // its neighbour is 2050
  for (const std::size_t rank : {1u, 2u, 3u}) inputs[rank].set(0, 1);
  EXPECT_EQ(in_two_steps(inputs, 2, {DType::float16, ReduceOp::sum, 1.0, 1.0, 1}).at(0), 2052.0);  // 2051
}

TEST(Stepwise, SuitsOnlyFloatingPoint) {
  EXPECT_TRUE(Stepwise::suits({DType::bfloat16, ReduceOp::sum, 1.0, 1.0, 1}));
  EXPECT_TRUE(Stepwise::suits({DType::float64, ReduceOp::sum, 1.0, 1.0, 1}));
  EXPECT_FALSE(Stepwise::suits({DType::int32, ReduceOp::sum, 1.0, 1.0, 1}));
  EXPECT_FALSE(Stepwise::suits({DType::boolean, ReduceOp::max, 1.0, 1.0, 1}));
}

}  // namespace
}  // namespace hora
