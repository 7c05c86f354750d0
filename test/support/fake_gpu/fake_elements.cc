// SPDX-License-Identifier: Apache-2.0
#include "test/support/fake_gpu/fake_elements.h"

#include "core/base/elements.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace hora {
namespace {

template <typename T>
T sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <typename T>
T product(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

/// Calls body with an element of this type.
template <typename Body>
void with_type(ncclDataType_t type, Body body) {
  switch (type) {
    case ncclInt8: return body(Plain<std::int8_t>{});
    case ncclUint8: return body(Plain<std::uint8_t>{});
    case ncclInt32: return body(Plain<std::int32_t>{});
    case ncclUint32: return body(Plain<std::uint32_t>{});
    case ncclInt64: return body(Plain<std::int64_t>{});
    case ncclUint64: return body(Plain<std::uint64_t>{});
    case ncclFloat16: return body(Float16{});
    case ncclBfloat16: return body(Bfloat16{});
    case ncclFloat32: return body(Plain<float>{});
    case ncclFloat64: return body(Plain<double>{});
    default: throw std::runtime_error("a type that this fake lacks");
  }
}

/// to[i] = change(to[i], from[i]), where `from` may be one element for all.
template <typename Element, typename Change>
void each(void* to, const void* from, std::size_t step, std::size_t count, Change change) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  for (std::size_t i = 0; i < count; ++i) {
    Element a;
    Element b;
    std::memcpy(&a, target + i * sizeof a, sizeof a);
    std::memcpy(&b, source + i * step * sizeof b, sizeof b);
    const Element result = Element::from(change(a.number(), b.number()));
    std::memcpy(target + i * sizeof result, &result, sizeof result);
  }
}

}  // namespace

std::size_t fake_size_of(ncclDataType_t type) {
  std::size_t size = 0;
  with_type(type, [&](auto element) { size = sizeof element; });
  return size;
}

void fake_combine(ncclRedOp_t op, ncclDataType_t type, void* to, const void* from, std::size_t count) {
  with_type(type, [&](auto element) {
    using Element = decltype(element);
    using Number = typename Element::Number;
    each<Element>(to, from, 1, count, [op](Number a, Number b) {
      if (op == ncclProd) return product(a, b);
      if (op == ncclMax) return std::max(a, b);
      if (op == ncclMin) return std::min(a, b);
      return sum(a, b);
    });
  });
}

void fake_multiply(ncclDataType_t type, void* to, const void* scalar, std::size_t count) {
  with_type(type, [&](auto element) {
    using Element = decltype(element);
    using Number = typename Element::Number;
    each<Element>(to, scalar, 0, count, [](Number a, Number b) { return product(a, b); });
  });
}

void fake_divide(ncclDataType_t type, void* to, int ranks, std::size_t count) {
  with_type(type, [&](auto element) {
    using Element = decltype(element);
    using Number = typename Element::Number;
    each<Element>(to, to, 0, count,
                  [ranks](Number a, Number) { return static_cast<Number>(a / static_cast<Number>(ranks)); });
  });
}

}  // namespace hora
