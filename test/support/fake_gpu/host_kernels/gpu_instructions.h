// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/half.h"
#include "test/support/fake_gpu/host_kernels/thread_block.h"

#include <bit>
#include <cstdint>
#include <cstring>

// The words of CUDA and the GPU's instructions that kernels.cu uses, for the host. So tests run the kernels
// as they are. As PTX says, hardware makes a NaN of its own, whatever the operands were; so do these.

#define __device__                          // NOLINT: CUDA's words
#define __global__                          // NOLINT
#define __grid_constant__                   // NOLINT
#define __launch_bounds__(threads, blocks)  // NOLINT

inline float __uint_as_float(std::uint32_t bits) { return std::bit_cast<float>(bits); }
inline std::uint32_t __float_as_uint(float value) { return std::bit_cast<std::uint32_t>(value); }
inline double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }
inline long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32 |
                               static_cast<std::uint32_t>(low));
}
inline int __double2loint(double value) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(value) & 0xFFFFFFFFU);
}
inline int __double2hiint(double value) {
  return static_cast<int>(std::bit_cast<std::uint64_t>(value) >> 32);
}

namespace hora::cuda {

inline constexpr std::uint32_t kGpuNan = 0x7FFFFFFF;
inline constexpr std::uint64_t kGpuDoubleNan = 0xFFF8000000000000;
inline constexpr std::uint16_t kGpuHalfNan = 0x7FFF;

inline float as_gpu(float value) { return value == value ? value : std::bit_cast<float>(kGpuNan); }
inline double as_gpu(double value) { return value == value ? value : std::bit_cast<double>(kGpuDoubleNan); }

/// A reference, since a host would copy the table for every thread.
template <typename Table>
using Parameter = const Table&;

inline float widen_f16(std::uint16_t bits) { return as_gpu(float_from_float16(bits)); }
inline std::uint16_t narrow_f16(float value) { return value == value ? float16_from(value) : kGpuHalfNan; }
inline std::uint16_t narrow_bf16(float value) { return value == value ? bfloat16_from(value) : kGpuHalfNan; }
inline std::uint32_t narrow_f16_pair(float low, float high) {
  return narrow_f16(low) | static_cast<std::uint32_t>(narrow_f16(high)) << 16;
}
inline std::uint32_t narrow_bf16_pair(float low, float high) {
  return narrow_bf16(low) | static_cast<std::uint32_t>(narrow_bf16(high)) << 16;
}

template <int kWords>
void load_words(std::uint32_t* words, std::uint64_t address) {
  constexpr unsigned kBytes = 4 * kWords;
  if (access_global(Direction::load, address, kBytes))
    std::memcpy(words, reinterpret_cast<const void*>(address), kBytes);
}

template <int kWords>
void store_words(std::uint64_t address, const std::uint32_t* words) {
  constexpr unsigned kBytes = 4 * kWords;
  if (access_global(Direction::store, address, kBytes))
    std::memcpy(reinterpret_cast<void*>(address), words, kBytes);
}

template <unsigned kCount>
void take_largest_of_eight(std::uint32_t (&values)[kCount]) {
  exchange_largest(values, kCount, 8);
}

template <typename Number>
Number load_number(std::uint64_t address) {
  Number value{};
  if (access_global(Direction::load, address, sizeof(Number)))
    std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof(Number));
  return value;
}

template <typename Number>
void store_number(std::uint64_t address, Number value) {
  if (access_global(Direction::store, address, sizeof(Number)))
    std::memcpy(reinterpret_cast<void*>(address), &value, sizeof(Number));
}

}  // namespace hora::cuda

inline float __fmul_rn(float a, float b) { return hora::cuda::as_gpu(a * b); }
inline float __fadd_rn(float a, float b) { return hora::cuda::as_gpu(a + b); }
inline double __dmul_rn(double a, double b) { return hora::cuda::as_gpu(a * b); }
inline float __double2float_rn(double value) { return hora::cuda::as_gpu(static_cast<float>(value)); }
