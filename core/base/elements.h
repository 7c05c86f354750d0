// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/half.h"

#include <hora/dtype.h>
#include <hora/status.h>

#include <cstdint>

namespace hora {

// Types for the elements of each dtype. Such a type has the same layout in memory as the element. `number()`
// returns the value of an element, and `from()` makes an element from a value, which it rounds once.

struct Float16 {
  using Number = float;
  std::uint16_t bits;
  [[nodiscard]] float number() const { return float_from_float16(bits); }
  static Float16 from(float number) { return {float16_from(number)}; }
};

struct Bfloat16 {
  using Number = float;
  std::uint16_t bits;
  [[nodiscard]] float number() const { return float_from_bfloat16(bits); }
  static Bfloat16 from(float number) { return {bfloat16_from(number)}; }
};

/// An element of a dtype that has a C++ type of its own.
template <typename T>
struct Plain {
  using Number = T;
  T value;
  [[nodiscard]] T number() const { return value; }
  static Plain from(T number) { return {number}; }
};

/// Calls `body` with an element of the type for this dtype, and returns the result of the call. Throws
/// Error(internal) for a dtype that a `Collective` does not reduce: complex ones and floats of 8 bits.
template <typename Body>
decltype(auto) with_element(DType dtype, Body&& body) {
  switch (dtype) {
    case DType::uint8: return body(Plain<std::uint8_t>{});
    case DType::int8: return body(Plain<std::int8_t>{});
    case DType::int16: return body(Plain<std::int16_t>{});
    case DType::int32: return body(Plain<std::int32_t>{});
    case DType::int64: return body(Plain<std::int64_t>{});
    case DType::float16: return body(Float16{});
    case DType::bfloat16: return body(Bfloat16{});
    case DType::float32: return body(Plain<float>{});
    case DType::float64: return body(Plain<double>{});
    case DType::boolean: return body(Plain<bool>{});
    case DType::uint16: return body(Plain<std::uint16_t>{});
    case DType::uint32: return body(Plain<std::uint32_t>{});
    case DType::uint64: return body(Plain<std::uint64_t>{});
    case DType::complex64:
    case DType::complex128:
    case DType::float8_e4m3fn:
    case DType::float8_e4m3fnuz:
    case DType::float8_e5m2:
    case DType::float8_e5m2fnuz:
    case DType::float8_e8m0fnu: break;
  }
  throw Error(Code::internal, "a dtype without an element type");
}

}  // namespace hora
