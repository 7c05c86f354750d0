// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <cstddef>
#include <span>
#include <vector>

namespace hora::mpi {

/// The part [begin, end) of some elements that one of several ranks is to reduce. A value.
struct Share {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t count() const { return end - begin; }
  bool operator==(const Share&) const = default;
};

/// Rank `rank`'s share of [begin, end): equal ones, of which the last may be shorter, or empty.
[[nodiscard]] Share share_of(Share whole, std::size_t rank, std::size_t ranks);

/// The parts of the segments, seen as one tensor, that a share is made of, in order; none is empty. `each` is
/// the size of an element.
[[nodiscard]] std::vector<Segment> cut(std::span<const Segment> segments, Share share, std::size_t each);

}  // namespace hora::mpi
