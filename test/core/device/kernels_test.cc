// SPDX-License-Identifier: Apache-2.0
#include "core/device/kernels.h"

#include "core/base/half.h"
#include "test/support/elements.h"
#include "test/support/targets.h"

#include <hora/status.h>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <span>

namespace hora {
namespace {

/// The input element `index` of a rank: small, of both signs where the dtype has them; bool: 0, 1 and other
/// truths.
int input(DType dtype, std::size_t rank, std::size_t index) {
  const int value = static_cast<int>((index * 7 + rank * 3) % 5);
  if (dtype == DType::boolean) return value == 0 ? 0 : (value == 1 ? 2 : value % 2);
  return kind_of(dtype) == NumberKind::unsigned_integer ? value : value - 2;
}

int bits(double value) { return static_cast<int>(value); }

double expected(DType dtype, ReduceOp op, std::size_t ranks, std::size_t index) {
  const auto at = [&](std::size_t rank) {
    const int value = input(dtype, rank, index);
    return dtype == DType::boolean ? (value != 0 ? 1.0 : 0.0) : value;
  };
  double result = at(0);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    switch (op) {
      case ReduceOp::min: result = std::min(result, at(rank)); break;
      case ReduceOp::max: result = std::max(result, at(rank)); break;
      case ReduceOp::product: result *= at(rank); break;
      case ReduceOp::bit_and: result = bits(result) & bits(at(rank)); break;
      case ReduceOp::bit_or: result = bits(result) | bits(at(rank)); break;
      case ReduceOp::bit_xor: result = bits(result) ^ bits(at(rank)); break;
      case ReduceOp::logical_and: result = result != 0 && at(rank) != 0 ? 1 : 0; break;
      case ReduceOp::logical_or: result = result != 0 || at(rank) != 0 ? 1 : 0; break;
      default: result += at(rank);
    }
  }
  if (is_logical(op)) return result != 0 ? 1 : 0;
  return dtype == DType::boolean ? std::min(result, 1.0) : result;
}

struct Case {
  DType dtype;
  ReduceOp op;
  std::size_t ranks;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const DType dtype : reduced_dtypes()) {
    for (int number = 0; number < kReduceOps; ++number) {
      const auto op = static_cast<ReduceOp>(number);
      if (op == ReduceOp::average || op == ReduceOp::adasum) continue;
      if (is_bitwise(op) && is_float(dtype)) continue;
      for (const std::size_t ranks : {1, 2, 3, 5}) cases.push_back({dtype, op, ranks});
    }
  }
  return cases;
}

class Reduce : public testing::TestWithParam<Case> {};

TEST_P(Reduce, GivesEveryOutputTheExactResultAtAnyLengthAndAlignment) {
  const auto [dtype, op, ranks] = GetParam();
  for (const std::size_t count : {0, 1, 3, 17, 63, 1024, 1025, 4099}) {
    const std::size_t shift = count % 3;  // elements, so that nothing is aligned
    std::vector<Elements> memory(ranks, Elements(dtype, count + shift));
    std::vector<const void*> inputs;
    std::vector<void*> outputs;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < count; ++i) memory[rank].set(i + shift, input(dtype, rank, i));
      auto* data = static_cast<std::byte*>(memory[rank].data()) + shift * size_of(dtype);
      inputs.push_back(data);
      outputs.push_back(data);  // in place
    }
    kernels::reduce(inputs, outputs, count, {dtype, op, 1.0, 1.0, 1});
    for (const auto& output : memory) {
      for (std::size_t i = 0; i < count; ++i)
        ASSERT_EQ(output.at(i + shift), expected(dtype, op, ranks, i)) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryDTypeAndOp, Reduce, testing::ValuesIn(all_cases()), [](const auto& one) {
  return std::string(name(one.param.dtype)) + "_" + std::string(name(one.param.op)) + "_" +
         std::to_string(one.param.ranks);
});

TEST(Reduce, WritesToOutputsThatAreNoInputs) {
  const std::vector<float> a{1, 2, 3};
  const std::vector<float> b{10, 20, 30};
  std::vector<float> x(3);
  std::vector<float> y(3);
  std::vector<float> z(3);
  const void* inputs[] = {a.data(), b.data()};
  void* outputs[] = {x.data(), y.data(), z.data()};
  kernels::reduce(inputs, outputs, 3, {});
  EXPECT_EQ(x, (std::vector<float>{11, 22, 33}));
  EXPECT_EQ(y, x);
  EXPECT_EQ(z, x);
}

template <typename T>
T scaled(T a, T b, DType dtype, double prescale, double postscale, int divisor) {
  const void* inputs[] = {&a, &b};
  T out{};
  void* outputs[] = {&out};
  kernels::reduce(inputs, outputs, 1, {dtype, ReduceOp::sum, prescale, postscale, divisor});
  return out;
}

TEST(Reduce, ScalesBeforeAndAfter) {
  EXPECT_EQ(scaled(3.0F, 5.0F, DType::float32, 0.5, 4.0, 1), 16.0F);
  EXPECT_EQ(scaled(3.0, 5.0, DType::float64, 1.0, 1.0, 2), 4.0);
  EXPECT_EQ(scaled(3.0F, 3.0F, DType::float32, 1.0, 1.0, 3), 2.0F);
}

TEST(Reduce, IntegerAveragesAreTruncatedTowardZero) {
  EXPECT_EQ(scaled<std::int32_t>(3, 4, DType::int32, 1.0, 1.0, 2), 3);
  EXPECT_EQ(scaled<std::int32_t>(-3, -4, DType::int32, 1.0, 1.0, 2), -3);
  EXPECT_EQ(scaled<std::int64_t>(49, 0, DType::int64, 1.0, 1.0, 49), 1);
  EXPECT_EQ(scaled<std::uint8_t>(200, 50, DType::uint8, 1.0, 1.0, 200), 1);
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(scaled<std::uint64_t>(kMost, kMost - 2, DType::uint64, 1.0, 1.0, 2), kMost - 1);
}

TEST(Reduce, SumsOfAveragesDoNotOverflow) {
  EXPECT_EQ(scaled<std::uint8_t>(200, 250, DType::uint8, 1.0, 1.0, 2), 225);
  EXPECT_EQ(scaled<std::int8_t>(-128, -127, DType::int8, 1.0, 1.0, 2), -127);
  EXPECT_EQ(scaled<std::int32_t>(2'000'000'000, 2'000'000'002, DType::int32, 1.0, 1.0, 2), 2'000'000'001);
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(scaled<std::int64_t>(kMost, kMost - 2, DType::int64, 1.0, 1.0, 2), kMost - 1);
  EXPECT_EQ(scaled<std::int64_t>(-kMost - 1, -kMost, DType::int64, 1.0, 1.0, 2), -kMost);
  EXPECT_EQ(scaled<std::int64_t>(kMost, kMost, DType::int64, 8.0, 0.125, 2), kMost);
}

TEST(Reduce, IntegersWrapAroundButScaledOnesKeepToTheirRange) {
  EXPECT_EQ(scaled<std::uint8_t>(200, 100, DType::uint8, 1.0, 1.0, 1), 44);
  EXPECT_EQ(scaled<std::int8_t>(100, 0, DType::int8, 1.0, 10.0, 1), 127);
  EXPECT_EQ(scaled<std::int8_t>(-100, 0, DType::int8, 1.0, 10.0, 1), -128);
}

TEST(Reduce, SixteenBitFloatsAreSummedInFloat32AndRoundedOnce) {
  // 2048 + 1 + 1 is 2050; in float16 alone each 1 would be lost.
  const std::uint16_t large = float16_from(2048);
  const std::uint16_t one = float16_from(1);
  std::uint16_t out = 0;
  const void* inputs[] = {&large, &one, &one};
  void* outputs[] = {&out};
  kernels::reduce(inputs, outputs, 1, {DType::float16, ReduceOp::sum, 1.0, 1.0, 1});
  EXPECT_EQ(float_from_float16(out), 2050.0F);
}

TEST(Reduce, TheMeanOfLargeFloat16DoesNotOverflow) {
  const std::uint16_t large = float16_from(60000);
  const std::vector<const void*> inputs(8, &large);
  std::uint16_t out = 0;
  void* outputs[] = {&out};
  kernels::reduce(inputs, outputs, 1, {DType::float16, ReduceOp::sum, 1.0, 1.0, 8});
  EXPECT_EQ(out, large);
}

TEST(Reduce, SumsInRankOrder) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> data(5, std::vector<float>(1000));
  std::vector<const void*> inputs;
  for (auto& rank : data) {
    for (auto& x : rank) x = normal(random);
    inputs.push_back(rank.data());
  }
  std::vector<float> out(1000);
  void* outputs[] = {out.data()};
  kernels::reduce(inputs, outputs, 1000, {});
  for (std::size_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(out[i], (((data[0][i] + data[1][i]) + data[2][i]) + data[3][i]) + data[4][i]);
  }
}

TEST(Cast, ConvertsBetweenAllFloats) {
  for (const DType from : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    for (const DType to : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
      Elements source(from, 1001);
      Elements target(to, 1001);
      for (std::size_t i = 0; i < 1001; ++i) source.set(i, static_cast<int>(i % 257) - 128);
      kernels::cast(target.data(), to, source.data(), from, 1001);
      for (std::size_t i = 0; i < 1001; ++i) ASSERT_EQ(target.at(i), static_cast<double>(i % 257) - 128) << i;
    }
  }
}

// --- the same bits from every loop, and for every instruction set that this CPU has ---

std::vector<float> awkward_floats() {
  std::mt19937 random(3);
  std::vector<float> values{0.0F,
                            -0.0F,
                            1.0F,
                            65504.0F,
                            65519.996F,
                            65520.0F,
                            1e-8F,
                            2.98e-8F,
                            2.980233e-8F,
                            6e-8F,
                            6.1e-5F,
                            3e38F,
                            -3e38F,
                            1e-40F,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity()};
  while (values.size() < 20'001) {
    const auto value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(value)) values.push_back(value);
  }
  return values;
}

TEST(Cast, HasTheBitsOfTheScalarConversionOnEveryTarget) {
  const std::vector<float> values = awkward_floats();
  std::vector<std::uint16_t> narrow(values.size());
  std::vector<float> wide(65536);
  std::vector<std::uint16_t> all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  on_every_target([&] {
    kernels::cast(narrow.data(), DType::float16, values.data(), DType::float32, values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(narrow[i], float16_from(values[i])) << values[i];
    kernels::cast(narrow.data(), DType::bfloat16, values.data(), DType::float32, values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(narrow[i], bfloat16_from(values[i])) << values[i];
    kernels::cast(wide.data(), DType::float32, all.data(), DType::float16, all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float expected = float_from_float16(all[i]);
      if (std::isnan(expected))
        ASSERT_TRUE(std::isnan(wide[i])) << i;
      else
        ASSERT_EQ(std::bit_cast<std::uint32_t>(wide[i]), std::bit_cast<std::uint32_t>(expected)) << i;
    }
  });
}

/// The expected result, computed one element at a time and in rank order.
float reference(std::span<const float> values, const Reduction& reduction) {
  const auto scaled = [&](float value) { return value * static_cast<float>(reduction.prescale); };
  float result = scaled(values[0]);
  for (const float next : values.subspan(1)) {
    const float value = scaled(next);
    switch (reduction.op) {
      case ReduceOp::min: result = std::isnan(result) || result <= value ? result : value; break;
      case ReduceOp::max: result = std::isnan(result) || result >= value ? result : value; break;
      case ReduceOp::product: result *= value; break;
      default: result += value;
    }
  }
  return result * static_cast<float>(reduction.postscale) / static_cast<float>(reduction.divisor);
}

std::uint16_t narrowed(DType dtype, float value) {
  return dtype == DType::float16 ? float16_from(value) : bfloat16_from(value);
}

float widened(DType dtype, std::uint16_t bits) {
  return dtype == DType::float16 ? float_from_float16(bits) : float_from_bfloat16(bits);
}

std::vector<Reduction> awkward_reductions(DType dtype) {
  std::vector<Reduction> all;
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::product}) {
    for (const double prescale : {1.0, 0.3}) {
      for (const double postscale : {1.0, 1.7}) {
        for (const int divisor : {1, 2, 3}) all.push_back({dtype, op, prescale, postscale, divisor});
      }
    }
  }
  return all;
}

template <typename Check>
void reduce_awkward(std::size_t ranks, std::size_t outputs, const Check& check) {
  const std::vector<float> values = awkward_floats();
  constexpr std::size_t kCount = 1111;
  std::vector<std::vector<float>> in(ranks, std::vector<float>(kCount));
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    for (std::size_t i = 0; i < kCount; ++i) in[rank][i] = values[(i * 7 + rank * 1009) % values.size()];
    in[rank][rank] = std::numeric_limits<float>::quiet_NaN();
  }
  check(in, std::vector<std::vector<float>>(outputs, std::vector<float>(kCount)));
}

TEST(Reduce, Float32HasTheBitsOfTheScalarLoopOnEveryTarget) {
  on_every_target([] {
    for (const auto& [ranks, outputs] : {std::pair{2, 2}, {2, 1}, {3, 3}, {5, 2}}) {
      reduce_awkward(static_cast<std::size_t>(ranks), static_cast<std::size_t>(outputs),
                     [](const auto& in, auto out) {
                       const std::vector<const void*> from = [&] {
                         std::vector<const void*> pointers;
                         for (const auto& one : in) pointers.push_back(one.data());
                         return pointers;
                       }();
                       std::vector<void*> to;
                       for (auto& one : out) to.push_back(one.data());
                       for (const auto& reduction : awkward_reductions(DType::float32)) {
                         kernels::reduce(from, to, in[0].size(), reduction);
                         std::vector<float> column(in.size());
                         for (std::size_t i = 0; i < in[0].size(); ++i) {
                           for (std::size_t rank = 0; rank < in.size(); ++rank) column[rank] = in[rank][i];
                           const float expected = reference(column, reduction);
                           for (const auto& one : out) {
                             ASSERT_TRUE(std::isnan(expected) ? std::isnan(one[i]) : one[i] == expected)
                                 << i << " " << expected;
                           }
                         }
                       }
                     });
    }
  });
}

TEST(Reduce, SixteenBitFloatsHaveTheBitsOfTheScalarLoopOnEveryTarget) {
  on_every_target([] {
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
      reduce_awkward(2, 2, [dtype](const auto& in, const auto&) {
        const std::size_t count = in[0].size();
        std::vector<std::vector<std::uint16_t>> data(2, std::vector<std::uint16_t>(count));
        std::vector<std::vector<std::uint16_t>> out = data;
        for (std::size_t rank = 0; rank < 2; ++rank) {
          for (std::size_t i = 0; i < count; ++i) data[rank][i] = narrowed(dtype, in[rank][i]);
        }
        const void* from[] = {data[0].data(), data[1].data()};
        void* to[] = {out[0].data(), out[1].data()};
        for (const auto& reduction : awkward_reductions(dtype)) {
          kernels::reduce(from, to, count, reduction);
          for (std::size_t i = 0; i < count; ++i) {
            const float column[] = {widened(dtype, data[0][i]), widened(dtype, data[1][i])};
            const float result = reference(column, reduction);
            for (const auto& one : out) {
              ASSERT_TRUE(std::isnan(result) ? std::isnan(widened(dtype, one[i]))
                                             : one[i] == narrowed(dtype, result));
            }
          }
        }
      });
    }
  });
}

TEST(Cast, RefusesIntegers) {
  float x = 0;
  EXPECT_THROW(kernels::cast(&x, DType::int32, &x, DType::float32, 1), Error);
}

TEST(CopyStreaming, CopiesAnyLengthToAnyAlignment) {
  std::vector<unsigned char> from(5000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 31);
  for (const std::size_t shift : {0, 1, 63}) {
    for (const std::size_t length : {0, 1, 15, 64, 1000, 4096}) {
      std::vector<unsigned char> to(5000);
      kernels::copy_streaming(to.data() + shift, from.data(), length);
      ASSERT_EQ(std::memcmp(to.data() + shift, from.data(), length), 0);
      ASSERT_EQ(to[shift + length], 0);
    }
  }
}

TEST(Target, NamesTheInstructionSet) { EXPECT_STRNE(kernels::target(), ""); }

}  // namespace
}  // namespace hora
