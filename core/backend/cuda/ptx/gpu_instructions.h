// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// The instructions of a GPU that kernels.cu uses and that C++ has no words for, as PTX. Tests run the same
// kernels on the host, over test/support/fake_gpu/host_kernels/gpu_instructions.h, which has the same names.

namespace hora::cuda {

/// The type of a kernel's parameter: the table by value.
template <typename Table>
using Parameter = Table;

// Between float32 and 16 bits, to the nearest, ties to even. Every NaN becomes one of the hardware's own.
// Those of bfloat16, and pairs, need an architecture of 80 at least. The lower half of a pair is `low`.

__device__ inline float widen_f16(std::uint16_t bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

__device__ inline std::uint16_t narrow_f16(float value) {
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ inline std::uint32_t narrow_f16_pair(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

__device__ inline std::uint16_t narrow_bf16(float value) {
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

__device__ inline std::uint32_t narrow_bf16_pair(float low, float high) {
  std::uint32_t both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

// Words at an address that is aligned to all of them: 1, 2 or 4. PTX says that the memory is global, which
// spares the hardware a look at every address. These keep their order: all loads of a thread are under way
// before it stores.

template <int kWords>
__device__ void load_words(std::uint32_t* words, std::uint64_t address) {
  if constexpr (kWords == 4) {
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "l"(address));
  } else if constexpr (kWords == 2) {
    asm volatile("ld.global.v2.u32 {%0, %1}, [%2];" : "=r"(words[0]), "=r"(words[1]) : "l"(address));
  } else {
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(words[0]) : "l"(address));
  }
}

template <int kWords>
__device__ void store_words(std::uint64_t address, const std::uint32_t* words) {
  if constexpr (kWords == 4) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
  } else if constexpr (kWords == 2) {
    asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(words[0]), "r"(words[1]) : "memory");
  } else {
    asm volatile("st.global.u32 [%0], %1;" ::"l"(address), "r"(words[0]) : "memory");
  }
}

/// Each value becomes the largest one of eight neighbouring threads. All threads of a block call it, once.
template <unsigned kCount>
__device__ void take_largest_of_eight(std::uint32_t (&values)[kCount]) {
#pragma unroll
  for (unsigned k = 0; k < kCount; ++k) {
#pragma unroll
    for (int distance = 4; distance > 0; distance /= 2) {
      std::uint32_t other;
      asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"
                   : "=r"(other)
                   : "r"(values[k]), "r"(distance));
      values[k] = other > values[k] ? other : values[k];
    }
  }
}

/// A number of 1, 2, 4 or 8 bytes at an address that is aligned to its size.
template <typename Number>
__device__ Number load_number(std::uint64_t address) {
  return *reinterpret_cast<const Number*>(address);
}

template <typename Number>
__device__ void store_number(std::uint64_t address, Number value) {
  *reinterpret_cast<Number*>(address) = value;
}

}  // namespace hora::cuda
