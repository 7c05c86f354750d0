// SPDX-License-Identifier: Apache-2.0
#include "core/device/neutral.h"

#include "core/base/half.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace hora {
namespace {

template <typename T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::product: return T{1};
    case ReduceOp::min: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case ReduceOp::max: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    default: return T{0};
  }
}

template <typename T>
void fill(void* to, std::size_t count, T value) {
  std::fill_n(static_cast<T*>(to), count, value);
}

}  // namespace

void fill_neutral(void* to, DType dtype, ReduceOp op, std::size_t count) {
  switch (dtype) {
    case DType::uint8: return fill(to, count, neutral<std::uint8_t>(op));
    case DType::int8: return fill(to, count, neutral<std::int8_t>(op));
    case DType::int16: return fill(to, count, neutral<std::int16_t>(op));
    case DType::int32: return fill(to, count, neutral<std::int32_t>(op));
    case DType::int64: return fill(to, count, neutral<std::int64_t>(op));
    case DType::float16: return fill(to, count, float16_from(neutral<float>(op)));
    case DType::bfloat16: return fill(to, count, bfloat16_from(neutral<float>(op)));
    case DType::float32: return fill(to, count, neutral<float>(op));
    case DType::float64: return fill(to, count, neutral<double>(op));
    case DType::boolean: return fill(to, count, neutral<bool>(op));
  }
}

}  // namespace hora
