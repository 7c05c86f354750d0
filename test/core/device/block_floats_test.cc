// SPDX-License-Identifier: Apache-2.0
#include "core/device/block_floats.h"

#include "core/device/host_stream.h"
#include "core/device/kernels.h"
#include "test/support/block_floats.h"
#include "test/support/targets.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace hora {
namespace {

constexpr std::array kFormats{DType::float8_e4m3fn, DType::float8_e5m2};

/// Elements and scales in memory of their own, `shift` bytes behind an aligned place.
class Blocks {
 public:
  explicit Blocks(std::size_t count, std::size_t shift = 0)
      : elements_(blocks_of(count) * kBlockFloats + shift), scales_(blocks_of(count)), shift_(shift) {}
  BlockFloats get() { return {elements_.data() + shift_, scales_.data()}; }
  [[nodiscard]] int element(std::size_t i) const { return static_cast<int>(elements_[i + shift_]); }
  [[nodiscard]] int scale(std::size_t k) const { return static_cast<int>(scales_[k]); }
  bool operator==(const Blocks&) const = default;

 private:
  std::vector<std::byte> elements_;
  std::vector<std::byte> scales_;
  std::size_t shift_;
};

/// Every exponent, with fractions beside those that are rounded another way, of both signs.
std::vector<float> swept_floats() {
  std::mt19937 random(5);
  std::vector<float> values;
  for (std::uint32_t exponent = 0; exponent < 256; ++exponent) {
    for (const std::uint32_t fraction : {0x0U, 0x1U, 0x7FFFFU, 0x80000U, 0x80001U, 0x100000U, 0x180000U,
                                         0x2FFFFFU, 0x300000U, 0x5FFFFFU, 0x600000U, 0x600001U, 0x7FFFFFU}) {
      const auto sign = static_cast<std::uint32_t>(random()) & 0x80000000U;
      values.push_back(std::bit_cast<float>(sign | exponent << 23 | fraction));
    }
  }
  return values;
}

/// Compares blocks of `values`, which are `source` widened, with those of the definition.
void expect_blocks(DType format, DType dtype, const void* source, const std::vector<float>& values) {
  const SlowBlockFloats slow(format);
  const std::size_t count = values.size();
  std::vector<int> scales;
  std::vector<int> elements(blocks_of(count) * kBlockFloats);
  std::vector<float> results;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % kBlockFloats == 0)
      scales.push_back(slow.scale(std::span(values).subspan(i, std::min(kBlockFloats, count - i))));
    elements[i] = slow.element(values[i], scales.back());
    results.push_back(static_cast<float>(std::ldexp(slow.value(elements[i]), scales.back() - 127)));
  }
  on_every_target([&] {
    Blocks made(count);
    kernels::quantize(made.get(), format, source, dtype, count, 1.0);
    for (std::size_t k = 0; k < scales.size(); ++k) ASSERT_EQ(made.scale(k), scales[k]) << k;
    for (std::size_t i = 0; i < elements.size(); ++i) ASSERT_EQ(made.element(i), elements[i]) << i;
    std::vector<float> back(count);
    kernels::dequantize(back.data(), DType::float32, made.get(), format, count);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_TRUE(std::isnan(results[i]) ? std::isnan(back[i]) : back[i] == results[i]) << values[i];
  });
}

TEST(BlockFloatsTest, RoundEveryFloatOf16BitsAsTheDefinitionOnEveryTarget) {
  for (const DType format : kFormats) {
    for (const DType dtype : {DType::float16, DType::bfloat16}) {
      std::vector<std::uint16_t> source(65536);
      std::mt19937 random(1);
      for (std::size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::uint16_t>(i);
      for (int order = 0; order < 2; ++order) {  // with others of their size, and of any size
        std::vector<float> values(source.size());
        kernels::cast(values.data(), DType::float32, source.data(), dtype, source.size());
        expect_blocks(format, dtype, source.data(), values);
        std::shuffle(source.begin(), source.end(), random);
      }
    }
  }
}

TEST(BlockFloatsTest, RoundFloatsOfEveryExponentAsTheDefinitionOnEveryTarget) {
  for (const DType format : kFormats) {
    auto values = swept_floats();
    std::mt19937 random(2);
    for (int order = 0; order < 3; ++order) {
      expect_blocks(format, DType::float32, values.data(), values);
      const std::vector<double> wide(values.begin(), values.end());
      expect_blocks(format, DType::float64, wide.data(), values);
      std::shuffle(values.begin(), values.end(), random);
    }
  }
}

TEST(BlockFloatsTest, BecomeAsManyElementsOfEveryDTypeAsThereAre) {
  for (const DType format : kFormats) {
    for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
      for (const std::size_t count : {0, 1, 31, 32, 33, 1023, 1024, 1057, 4099}) {
        const std::size_t size = size_of(dtype);
        const std::size_t shift = 1 + count % 3;
        const std::size_t begin = shift * size;
        std::vector<float> values(count);
        for (std::size_t i = 0; i < count; ++i) values[i] = std::ldexp(1.0F, static_cast<int>(i % 5));
        std::vector<std::byte> source(begin + count * size);
        kernels::cast(source.data() + begin, dtype, values.data(), DType::float32, count);
        Blocks blocks(count, shift);
        kernels::quantize(blocks.get(), format, source.data() + begin, dtype, count, 4.0);
        std::vector<std::byte> target(begin + count * size + 1, std::byte{7});
        kernels::dequantize(target.data() + begin, dtype, blocks.get(), format, count);
        std::vector<float> results(count);
        kernels::cast(results.data(), DType::float32, target.data() + begin, dtype, count);
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(results[i], 4 * values[i]) << name(dtype) << " " << i;
        EXPECT_EQ(target.back(), std::byte{7});
        EXPECT_EQ(target.front(), std::byte{7});
      }
    }
  }
}

TEST(BlockFloatsTest, AreMultipliedInFloat64OnlyIfTheyAreThat) {
  const double third = 1.0 / 3;
  const double wide = 1e300;
  Blocks blocks(1);
  kernels::quantize(blocks.get(), DType::float8_e4m3fn, &wide, DType::float64, 1, 1.5e-300);
  float result = 0;
  kernels::dequantize(&result, DType::float32, blocks.get(), DType::float8_e4m3fn, 1);
  EXPECT_EQ(result, 1.5F);
  const float three = 3.0F;
  kernels::quantize(blocks.get(), DType::float8_e4m3fn, &three, DType::float32, 1, third);
  kernels::dequantize(&result, DType::float32, blocks.get(), DType::float8_e4m3fn, 1);
  EXPECT_EQ(result, 1.0F);
}

/// Blocks with all elements, and scales for which no sum is too large.
Blocks random_blocks(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Blocks blocks(count);
  for (std::size_t i = 0; i < count; ++i) blocks.get().elements[i] = static_cast<std::byte>(random());
  for (std::size_t k = 0; k < blocks_of(count); ++k)
    blocks.get().scales[k] = static_cast<std::byte>(random() % 248);
  return blocks;
}

TEST(BlockFloatsTest, AreSummedInTheOrderOfSourcesAndRoundedOnceOnEveryTarget) {
  constexpr std::size_t kCount = 128 * kBlockFloats;
  on_every_target([] {
    for (const DType format : kFormats) {
      for (const std::size_t many : {1, 2, 5}) {
        std::vector<Blocks> memory;
        std::vector<BlockFloats> sources;
        std::vector<float> sums(kCount);
        for (std::size_t s = 0; s < many; ++s)
          memory.push_back(random_blocks(kCount, static_cast<unsigned>(s)));
        for (auto& each : memory) {
          std::vector<float> values(kCount);
          kernels::dequantize(values.data(), DType::float32, each.get(), format, kCount);
          for (std::size_t i = 0; i < kCount; ++i)
            sums[i] = sources.empty() ? values[i] : sums[i] + values[i];
          sources.push_back(each.get());
        }
        Blocks made(kCount);
        Blocks expected(kCount);
        kernels::sum_blocks(made.get(), sources, format, kCount / kBlockFloats, 0.3);
        kernels::quantize(expected.get(), format, sums.data(), DType::float32, kCount, 0.3);
        ASSERT_EQ(made, expected) << name(format) << ", " << many;
      }
    }
  });
}

TEST(BlockFloatsTest, SetTheFlagForWhatIsNotFinite) {
  const auto stream = make_host_stream();
  std::vector<float> values(40, 3.0F);
  std::vector<std::uint16_t> results(40);
  Blocks blocks(40);
  const BlockMove move{blocks.get(), values.data(), results.data(), 40};
  const auto flag = stream->make_flag();
  const BlockConversion conversion{DType::float8_e5m2, DType::float32, 2.0};
  stream->quantize({&move, 1}, conversion);
  stream->dequantize({&move, 1}, {DType::float8_e5m2, DType::float16, 1.0, flag.get()});
  EXPECT_EQ(*flag, 0U);
  values[39] = 65504.0F;  // becomes 65536, which float16 does not have
  stream->quantize({&move, 1}, {DType::float8_e5m2, DType::float32});
  stream->dequantize({&move, 1}, {DType::float8_e5m2, DType::float16, 1.0, flag.get()});
  EXPECT_EQ(*flag, 1U);
}

TEST(BlockFloatsTest, HaveNoOtherFormats) {
  Blocks blocks(1);
  float value = 0;
  EXPECT_EQ(thrown([&] {
              kernels::quantize(blocks.get(), DType::float8_e4m3fnuz, &value, DType::float32, 1, 1.0);
            }).code,
            Code::internal);
}

}  // namespace
}  // namespace hora
