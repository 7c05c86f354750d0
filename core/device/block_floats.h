// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace hora {

/// How many elements share a scale, and so make a block.
inline constexpr std::size_t kBlockFloats = 32;
/// The bytes of a block: its elements, and its scale.
inline constexpr std::size_t kBlockBytes = kBlockFloats + 1;

/// The blocks of `count` elements; the last one may lack some.
[[nodiscard]] constexpr std::size_t blocks_of(std::size_t count) {
  return (count + kBlockFloats - 1) / kBlockFloats;
}

/// Whether a dtype can be that of the elements of blocks: float8_e4m3fn and float8_e5m2.
[[nodiscard]] constexpr bool is_block_float(DType dtype) {
  return dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2;
}

/// Where block-scaled floats lie. Block k has the elements from 32 k on, and scale k. The value of an element
/// is the float of 8 bits times 2^(scale - 127). A value.
struct BlockFloats {
  std::byte* elements = nullptr;
  std::byte* scales = nullptr;
};

/// Loops over block-scaled floats in host memory, as kernels.h has them for other dtypes. `format` is the
/// dtype of the elements (`is_block_float`). Pure functions; thread-safe. Blocks need no alignment; elements
/// of another dtype are aligned as that.
namespace kernels {

/// Makes blocks of factor * from[i], for floats of 16 to 64 bits. They are multiplied in float64 if they are
/// that, else in float32, and rounded to float32. The scale is the smallest power of two for which no finite
/// element is too large. Elements are rounded to nearest, ties to even. NaN stays NaN. An infinite element
/// stays infinite in float8_e5m2, and becomes NaN in float8_e4m3fn. Elements that the last block lacks become
/// 0.
void quantize(const BlockFloats& to, DType format, const void* from, DType dtype, std::size_t count,
              double factor);

/// to[i] = the value of element i, as `cast` makes it of float32.
void dequantize(void* to, DType dtype, const BlockFloats& from, DType format, std::size_t count);

/// Makes blocks of factor * (sources[0] + sources[1] + ...), which are added and multiplied in float32, in
/// this order. The memory must not overlap.
void sum_blocks(const BlockFloats& to, std::span<const BlockFloats> sources, DType format, std::size_t blocks,
                double factor);

}  // namespace kernels
}  // namespace hora
