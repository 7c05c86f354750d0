// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/compose/pieces.h"

#include <algorithm>
#include <cstddef>

namespace hora {

/// How a call is cut: into chunks, one after the other, and each chunk into slices, one for each of the first
/// ranks of every host. A value.
struct Cut {
  std::size_t total = 0;  // elements
  std::size_t each = 1;   // bytes of one
  std::size_t chunk = 1;  // elements
  std::size_t slices = 1;

  [[nodiscard]] std::size_t chunks() const { return (total + chunk - 1) / chunk; }
  [[nodiscard]] std::size_t begin(std::size_t k) const { return std::min(k * chunk, total); }
  /// Of slice `i` of `length` elements; all are in the first `slices`, the others are empty.
  [[nodiscard]] std::size_t slice_begin(std::size_t length, std::size_t i) const {
    return share_begin(length, each, static_cast<int>(std::min(i, slices)), static_cast<int>(slices));
  }
  [[nodiscard]] std::size_t slice(std::size_t length, std::size_t i) const {
    return slice_begin(length, i + 1) - slice_begin(length, i);
  }
};

}  // namespace hora
