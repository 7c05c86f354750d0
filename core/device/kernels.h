// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <hora/dtype.h>

#include <cstddef>
#include <span>

namespace hora {

/// How p elements become one:
///   out = postscale * (op over ranks of (prescale * in)) / divisor
/// float16 and bfloat16 are computed in float32, float32 in float32, float64 in float64, each with one
/// rounding at the end; operands are taken in rank order, so the result has the same bits on every path and
/// every CPU. Integers: sums and products wrap around, but what is divided is summed in twice as many bits
/// or more; a factor other than 1 multiplies in float64, truncates, and keeps to the dtype's range; `divisor`
/// truncates toward zero.
/// bool: sum and max mean or, product and min mean and. Bitwise and logical reductions have no factors and no
/// divisor. `op` is never average (that is sum with a divisor). A value.
struct Reduction {
  DType dtype = DType::float32;
  ReduceOp op = ReduceOp::sum;
  double prescale = 1.0;
  double postscale = 1.0;
  int divisor = 1;

  bool operator==(const Reduction&) const = default;
};

/// Element-wise loops over host memory, for the widest vectors that this CPU has (chosen at run time).
/// Pure functions; thread-safe.
namespace kernels {

/// inputs[rank] and outputs[k] point to `count` elements each. Every output gets the same bits. An output may
/// be one of the inputs, but must not overlap it otherwise. No alignment is needed.
void reduce(std::span<const void* const> inputs, std::span<void* const> outputs, std::size_t count,
            const Reduction& reduction);

/// to[i] = from[i], between any two of float16, bfloat16, float32 and float64; one rounding (from float64 to
/// 16 bits two, by way of float32). No alignment is needed; the memory must not overlap.
void cast(void* to, DType to_dtype, const void* from, DType from_dtype, std::size_t count);

/// memcpy whose stores bypass the caches: for bytes that another core reads next. Fences before it returns.
void copy_streaming(void* to, const void* from, std::size_t bytes);

/// The vector instruction set in use: "AVX2", "AVX3_ZEN4", ...
const char* target();

}  // namespace kernels
}  // namespace hora
