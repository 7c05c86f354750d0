// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace hora {

/// Every tensor that travels with others begins with a cache line of so many bytes.
inline constexpr std::size_t kCacheLine = 64;

/// The bytes of the cache lines that `bytes` of them take.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
}

}  // namespace hora
