// SPDX-License-Identifier: Apache-2.0
#include "core/device/neutral.h"

#include "core/base/elements.h"

#include <algorithm>
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

}  // namespace

void fill_neutral(void* to, DType dtype, ReduceOp op, std::size_t count) {
  with_element(dtype, [&](auto element) {
    using Element = decltype(element);
    std::fill_n(static_cast<Element*>(to), count, Element::from(neutral<typename Element::Number>(op)));
  });
}

}  // namespace hora
