// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/bytes.h"

#include <chrono>
#include <cstdint>

namespace hora {

// A time span in what ranks tell each other.

inline void write(Writer& out, std::chrono::milliseconds time) {
  out.u64(static_cast<std::uint64_t>(time.count()));
}

inline std::chrono::milliseconds read_time(Reader& in) {
  constexpr std::uint64_t kMostMilliseconds = std::uint64_t{1} << 50;  // no sum of two overflows
  return std::chrono::milliseconds(in.below(kMostMilliseconds, "a time"));
}

}  // namespace hora
