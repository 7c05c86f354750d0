// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/half.h"

#include <hora/dtype.h>
#include <hora/status.h>

#include <cstdint>

namespace hora {

// Types for the elements of each dtype. An element lies in memory as its type does. `number()` gives its
// value, and `from()` makes an element of a value, by rounding once.

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

/// An element of a type that C++ has.
template <typename T>
struct Plain {
  using Number = T;
  T value;
  [[nodiscard]] T number() const { return value; }
  static Plain from(T number) { return {number}; }
};

/// Calls `body` with an element of the type that a dtype has, and returns what it returns.
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
  }
  throw Error(Code::internal, "a dtype without an element type");
}

}  // namespace hora
