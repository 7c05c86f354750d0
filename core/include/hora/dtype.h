// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace hora {

/// The element types that Hora moves and reduces. Complex numbers have sums and averages alone. Floats of 8
/// bits have the names of PyTorch and of the package ml_dtypes. They are moved, and not reduced: a sum
/// needs more digits. Other floats may travel as two of them (Entry::wire). The numbers of the enumerators
/// travel between ranks: append only.
enum class DType : std::uint8_t {
  uint8,
  int8,
  int16,
  int32,
  int64,
  float16,
  bfloat16,
  float32,
  float64,
  boolean,
  uint16,
  uint32,
  uint64,
  complex64,   ///< two float32: the real part, then the imaginary one
  complex128,  ///< two float64
  float8_e4m3fn,
  float8_e4m3fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
  float8_e8m0fnu
};
inline constexpr int kDTypes = 20;

/// The kind of number that an element is. With its size it says how the element is laid out.
enum class NumberKind : std::uint8_t {
  boolean,
  unsigned_integer,
  signed_integer,
  ieee_float,   ///< float16, float32 and float64 of IEEE 754
  brain_float,  ///< the upper half of a float32
  complex,      ///< two of IEEE 754
  float8_e4m3fn,
  float8_e4m3fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
  float8_e8m0fnu,
};

/// How elements of several ranks become one. float16 and bfloat16 are summed in float32 and rounded once.
/// boolean: `sum` and `max` mean *or*, `product` and `min` mean *and*; there is no average.
/// Integer averages are truncated toward zero. Sums and products of integers that do not fit wrap around.
/// The numbers travel between ranks: append only.
///
/// adasum (floats only) takes the ranks' tensors two at a time, neighbours first, then the results, until one
/// is left; where their number is odd the last goes on as it is. Two become
///   (1 - a.b / (2 a.a)) a + (1 - a.b / (2 b.b)) b,
/// which is their sum if they are orthogonal and their mean if they are equal (Maleki et al., "Scaling
/// Distributed Training with Adaptive Summation", 2020).
///
/// bit_and, bit_or and bit_xor (integers and boolean) combine the bits of the elements. logical_and and
/// logical_or (every dtype but complex ones) take an element that is not zero for true; the result is 0 or 1.
enum class ReduceOp : std::uint8_t {
  average,
  sum,
  min,
  max,
  product,
  adasum,
  bit_and,
  bit_or,
  bit_xor,
  logical_and,
  logical_or
};
inline constexpr int kReduceOps = 11;

/// The size of one element, in bytes.
[[nodiscard]] std::size_t size_of(DType dtype);

[[nodiscard]] NumberKind kind_of(DType dtype);

/// "float32", "bool", ...: NumPy's and PyTorch's names.
[[nodiscard]] std::string_view name(DType dtype);
[[nodiscard]] std::string_view name(ReduceOp op);

/// The dtype of that name, or nothing.
[[nodiscard]] std::optional<DType> dtype_named(std::string_view name);

/// Whether elements are floats of 16 to 64 bits.
[[nodiscard]] constexpr bool is_float(DType dtype) {
  return dtype >= DType::float16 && dtype <= DType::float64;
}

[[nodiscard]] constexpr bool is_complex(DType dtype) {
  return dtype == DType::complex64 || dtype == DType::complex128;
}

/// Whether elements are floats of 8 bits: they are moved, and not reduced.
[[nodiscard]] constexpr bool is_float8(DType dtype) {
  return dtype >= DType::float8_e4m3fn && dtype <= DType::float8_e8m0fnu;
}

/// Whether a reduction combines the bits of elements: integers and boolean only, without factors.
[[nodiscard]] constexpr bool is_bitwise(ReduceOp op) {
  return op >= ReduceOp::bit_and && op <= ReduceOp::bit_xor;
}

/// Whether a reduction only looks which elements are zero: without factors.
[[nodiscard]] constexpr bool is_logical(ReduceOp op) {
  return op == ReduceOp::logical_and || op == ReduceOp::logical_or;
}

}  // namespace hora
