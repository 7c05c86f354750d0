// SPDX-License-Identifier: Apache-2.0
#include "core/device/neutral.h"

#include "core/base/dtypes.h"
#include "core/base/elements.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace hora {
namespace {

template <typename T>
T neutral(ReduceOp op) {
  using Limits = std::numeric_limits<T>;
  switch (op) {
    case ReduceOp::product:
    case ReduceOp::logical_and: return T{1};
    case ReduceOp::bit_and:
      if constexpr (std::is_integral_v<T>) return static_cast<T>(-1);  // every bit
      break;
    case ReduceOp::min: return Limits::has_infinity ? Limits::infinity() : Limits::max();
    case ReduceOp::max: return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
    default: break;
  }
  return T{0};
}

}  // namespace

void fill_neutral(void* to, DType dtype, ReduceOp op, std::size_t count) {
  const Numbers numbers = numbers_of(dtype);
  with_element(numbers.dtype, [&](auto element) {
    using Element = decltype(element);
    std::fill_n(static_cast<Element*>(to), count * numbers.each,
                Element::from(neutral<typename Element::Number>(op)));
  });
}

}  // namespace hora
