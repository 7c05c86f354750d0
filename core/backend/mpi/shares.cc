// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/shares.h"

#include <algorithm>

namespace hora::mpi {

Share share_of(Share whole, std::size_t rank, std::size_t ranks) {
  const std::size_t each = (whole.count() + ranks - 1) / ranks;
  const auto bound = [&](std::size_t index) { return std::min(whole.begin + index * each, whole.end); };
  return {bound(rank), bound(rank + 1)};
}

std::vector<Segment> cut(std::span<const Segment> segments, Share share, std::size_t each) {
  std::vector<Segment> parts;
  std::size_t first = 0;
  for (const auto& segment : segments) {
    const std::size_t from = std::max(share.begin, first);
    const std::size_t to = std::min(share.end, first + segment.count);
    if (from < to) {
      const std::size_t skipped = (from - first) * each;
      parts.push_back({static_cast<const std::byte*>(segment.input) + skipped,
                       static_cast<std::byte*>(segment.output) + skipped, to - from});
    }
    first += segment.count;
  }
  return parts;
}

}  // namespace hora::mpi
