// SPDX-License-Identifier: Apache-2.0
#include "core/device/block_floats.h"

#include "core/device/float8.h"
#include "core/device/kernels.h"

#include <hora/status.h>

#include <algorithm>
#include <array>
#include <cstring>

// Highway compiles this file once for each instruction set, as it does kernels.cc: see there.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "core/device/block_floats.cc"
#include <hwy/foreach_target.h>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace hora::kernels::HWY_NAMESPACE {

// Loops of a fixed length over one block, which the compiler turns into vector code.

constexpr std::size_t kLength = float8::kBlockElements;

// Blocks are taken a few at a time, in two steps. So the CPU need not wait for the scale of a block before it
// can begin with the next one.
constexpr std::size_t kFew = 8;

/// A block that has an element which is not finite.
template <typename Format>
void quantize_odd_block(std::uint8_t* elements, std::uint8_t* scale, const float* values) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < kLength; ++i) largest = std::max(largest, float8::finite_magnitude(values[i]));
  const std::uint32_t exponent = float8::scale_of<Format>(largest);
  *scale = static_cast<std::uint8_t>(exponent);
  const float inverse = float8::inverse_of_scale(exponent);
  for (std::size_t i = 0; i < kLength; ++i)
    elements[i] = static_cast<std::uint8_t>(float8::element_of<Format>(values[i] * inverse));
}

HWY_INLINE std::uint32_t largest_magnitude(const float* __restrict values) {
  std::int32_t largest = 0;  // with a sign, since more CPUs have a maximum of that
  for (std::size_t i = 0; i < kLength; ++i)
    largest = std::max(largest, static_cast<std::int32_t>(float8::magnitude_of(values[i])));
  return static_cast<std::uint32_t>(largest);
}

template <typename Format>
HWY_INLINE void quantize_block(std::uint8_t* __restrict elements, const float* __restrict values,
                               float inverse) {
  alignas(64) std::array<std::uint32_t, kLength> words;  // one loop would change between bytes and words
  for (std::size_t i = 0; i < kLength; ++i) words[i] = float8::finite_element_of<Format>(values[i] * inverse);
  for (std::size_t i = 0; i < kLength; ++i) elements[i] = static_cast<std::uint8_t>(words[i]);
}

template <typename Format>
HWY_INLINE void quantize_few(std::uint8_t* elements, std::uint8_t* scales, const float* values,
                             std::size_t blocks) {
  std::array<std::uint32_t, kFew> largest;
  for (std::size_t k = 0; k < blocks; ++k) largest[k] = largest_magnitude(values + k * kLength);
  for (std::size_t k = 0; k < blocks; ++k) {
    const std::uint32_t exponent = float8::scale_of<Format>(largest[k]);
    scales[k] = static_cast<std::uint8_t>(exponent);
    if (largest[k] < float8::kFloatInfinite)
      quantize_block<Format>(elements + k * kLength, values + k * kLength,
                             float8::inverse_of_scale(exponent));
    else
      quantize_odd_block<Format>(elements + k * kLength, scales + k, values + k * kLength);
  }
}

HWY_INLINE void multiply(float* __restrict to, const float* __restrict from, std::size_t count,
                         float factor) {
  for (std::size_t i = 0; i < count; ++i) to[i] = from[i] * factor;
}

template <typename Format>
void quantize_as(std::uint8_t* elements, std::uint8_t* scales, const float* values, std::size_t blocks,
                 float factor) {
  alignas(64) std::array<float, kFew * kLength> multiplied;
  for (std::size_t k = 0; k < blocks; k += kFew) {
    const std::size_t few = std::min(kFew, blocks - k);
    const float* from = values + k * kLength;
    if (factor != 1.0F) {
      multiply(multiplied.data(), from, few * kLength, factor);
      from = multiplied.data();
    }
    quantize_few<Format>(elements + k * kLength, scales + k, from, few);
  }
}

/// Whether an element is infinite or NaN.
template <typename Format>
HWY_INLINE bool is_odd(const std::uint8_t* __restrict elements) {
  std::uint8_t largest = 0;
  for (std::size_t i = 0; i < kLength; ++i)
    largest = std::max(largest, static_cast<std::uint8_t>(elements[i] & 0x7F));
  return largest >= Format::kInfinite;
}

template <typename Format>
HWY_INLINE void dequantize_block(float* __restrict values, const std::uint8_t* __restrict elements,
                                 std::uint8_t scale) {
  const float twice = float8::twice_scale(scale);
  for (std::size_t i = 0; i < kLength; ++i) values[i] = float8::finite_value_of<Format>(elements[i], twice);
  if (!is_odd<Format>(elements)) return;
  for (std::size_t i = 0; i < kLength; ++i) values[i] = float8::value_of<Format>(elements[i], twice);
}

template <typename Format>
void dequantize_as(float* values, const std::uint8_t* elements, const std::uint8_t* scales,
                   std::size_t blocks) {
  for (std::size_t k = 0; k < blocks; ++k)
    dequantize_block<Format>(values + k * kLength, elements + k * kLength, scales[k]);
}

template <typename Format>
void sum_as(const BlockFloats& to, std::span<const BlockFloats> sources, std::size_t blocks, float factor) {
  alignas(64) std::array<float, kFew * kLength> sums;
  alignas(64) std::array<float, kFew * kLength> values;
  for (std::size_t k = 0; k < blocks; k += kFew) {
    const std::size_t few = std::min(kFew, blocks - k);
    for (std::size_t s = 0; s < sources.size(); ++s) {
      const auto* elements = reinterpret_cast<const std::uint8_t*>(sources[s].elements) + k * kLength;
      const auto* scales = reinterpret_cast<const std::uint8_t*>(sources[s].scales) + k;
      dequantize_as<Format>(s == 0 ? sums.data() : values.data(), elements, scales, few);
      if (s == 0) continue;
      for (std::size_t i = 0; i < few * kLength; ++i) sums[i] += values[i];
    }
    multiply(values.data(), sums.data(), few * kLength, factor);
    quantize_few<Format>(reinterpret_cast<std::uint8_t*>(to.elements) + k * kLength,
                         reinterpret_cast<std::uint8_t*>(to.scales) + k, values.data(), few);
  }
}

void quantize_floats(const BlockFloats& to, DType format, const float* values, std::size_t blocks,
                     float factor) {
  auto* elements = reinterpret_cast<std::uint8_t*>(to.elements);
  auto* scales = reinterpret_cast<std::uint8_t*>(to.scales);
  if (format == DType::float8_e4m3fn)
    return quantize_as<float8::E4m3>(elements, scales, values, blocks, factor);
  quantize_as<float8::E5m2>(elements, scales, values, blocks, factor);
}

void dequantize_floats(float* values, const BlockFloats& from, DType format, std::size_t blocks) {
  const auto* elements = reinterpret_cast<const std::uint8_t*>(from.elements);
  const auto* scales = reinterpret_cast<const std::uint8_t*>(from.scales);
  if (format == DType::float8_e4m3fn) return dequantize_as<float8::E4m3>(values, elements, scales, blocks);
  dequantize_as<float8::E5m2>(values, elements, scales, blocks);
}

void sum_floats(const BlockFloats& to, std::span<const BlockFloats> sources, DType format, std::size_t blocks,
                float factor) {
  if (format == DType::float8_e4m3fn) return sum_as<float8::E4m3>(to, sources, blocks, factor);
  sum_as<float8::E5m2>(to, sources, blocks, factor);
}

}  // namespace hora::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hora::kernels {
namespace {

constexpr std::size_t kStep = 1024;  // elements that are widened or multiplied while they are in a cache
static_assert(kBlockFloats == float8::kBlockElements && kStep % kBlockFloats == 0);

void check(DType format) {
  if (!is_block_float(format)) throw Error(Code::internal, "a dtype whose blocks have no scales");
}

BlockFloats skipped(const BlockFloats& blocks, std::size_t elements) {
  return {blocks.elements + elements, blocks.scales + elements / kBlockFloats};
}

const std::byte* at(const void* data, std::size_t index, DType dtype) {
  return static_cast<const std::byte*>(data) + index * size_of(dtype);
}

/// values[i] = factor * from[i], multiplied in float64.
void multiply_wide(float* values, const void* from, std::size_t count, double factor) {
  std::array<double, kStep> wide;
  cast(wide.data(), DType::float64, from, DType::float64, count);
  for (std::size_t i = 0; i < count; ++i) wide[i] *= factor;
  cast(values, DType::float32, wide.data(), DType::float64, count);
}

}  // namespace

HWY_EXPORT(quantize_floats);
HWY_EXPORT(dequantize_floats);
HWY_EXPORT(sum_floats);

void quantize(const BlockFloats& to, DType format, const void* from, DType dtype, std::size_t count,
              double factor) {
  check(format);
  const std::size_t direct = dtype == DType::float32 ? count / kBlockFloats * kBlockFloats : 0;
  const bool wide = dtype == DType::float64 && factor != 1.0;
  const float later = wide ? 1.0F : static_cast<float>(factor);
  HWY_DYNAMIC_DISPATCH(quantize_floats)
  (to, format, static_cast<const float*>(from), direct / kBlockFloats, later);
  alignas(64) std::array<float, kStep> values;
  for (std::size_t done = direct; done < count; done += kStep) {
    const std::size_t length = std::min(kStep, count - done);
    if (wide)
      multiply_wide(values.data(), at(from, done, dtype), length, factor);
    else
      cast(values.data(), DType::float32, at(from, done, dtype), dtype, length);
    std::fill_n(values.data() + length, blocks_of(length) * kBlockFloats - length, 0.0F);
    HWY_DYNAMIC_DISPATCH(quantize_floats)
    (skipped(to, done), format, values.data(), blocks_of(length), later);
  }
}

void dequantize(void* to, DType dtype, const BlockFloats& from, DType format, std::size_t count) {
  check(format);
  const std::size_t direct = dtype == DType::float32 ? count / kBlockFloats * kBlockFloats : 0;
  HWY_DYNAMIC_DISPATCH(dequantize_floats)(static_cast<float*>(to), from, format, direct / kBlockFloats);
  alignas(64) std::array<float, kStep> values;
  for (std::size_t done = direct; done < count; done += kStep) {
    const std::size_t length = std::min(kStep, count - done);
    HWY_DYNAMIC_DISPATCH(dequantize_floats)(values.data(), skipped(from, done), format, blocks_of(length));
    cast(static_cast<std::byte*>(to) + done * size_of(dtype), dtype, values.data(), DType::float32, length);
  }
}

void sum_blocks(const BlockFloats& to, std::span<const BlockFloats> sources, DType format, std::size_t blocks,
                double factor) {
  check(format);
  HWY_DYNAMIC_DISPATCH(sum_floats)(to, sources, format, blocks, static_cast<float>(factor));
}

}  // namespace hora::kernels
#endif
