// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace hora {

/// A range of elements of one segment.
struct SegmentRange {
  std::size_t segment = 0;
  std::size_t begin = 0;
  std::size_t count = 0;
};

/// All segments one after the other, as if they were one tensor: visits the parts of [begin, end) of it.
template <typename Visit>
void for_each_range(std::span<const Segment> segments, std::size_t begin, std::size_t end,
                    const Visit& visit) {
  std::size_t first = 0;  // of this segment, in the whole
  for (std::size_t i = 0; i < segments.size() && first < end; ++i) {
    const std::size_t last = first + segments[i].count;
    const std::size_t from = std::max(begin, first);
    const std::size_t to = std::min(end, last);
    if (from < to) visit(SegmentRange{i, from - first, to - from});
    first = last;
  }
}

/// Copies the inputs of elements [begin, end) to one place, side by side, each range by copy(to, from,
/// bytes).
template <typename Copy>
void gather_inputs(std::byte* to, std::span<const Segment> segments, std::size_t each, std::size_t begin,
                   std::size_t end, const Copy& copy) {
  for_each_range(segments, begin, end, [&](const SegmentRange& range) {
    const std::size_t bytes = range.count * each;
    copy(to, static_cast<const std::byte*>(segments[range.segment].input) + range.begin * each, bytes);
    to += bytes;
  });
}

/// Copies elements [begin, end), which lie side by side, to the outputs.
inline void scatter_to_outputs(const std::byte* from, std::span<const Segment> segments, std::size_t each,
                               std::size_t begin, std::size_t end) {
  for_each_range(segments, begin, end, [&](const SegmentRange& range) {
    const std::size_t bytes = range.count * each;
    std::memcpy(static_cast<std::byte*>(segments[range.segment].output) + range.begin * each, from, bytes);
    from += bytes;
  });
}

/// Elements [begin, begin + count) of segments seen as one tensor, if they lie in one piece; else nullptr.
template <typename Pointer>
std::byte* in_one_piece(std::span<const Segment> segments, Pointer Segment::* which, std::size_t each,
                        std::size_t begin, std::size_t count) {
  std::byte* first = nullptr;
  std::byte* next = nullptr;
  bool whole = true;
  for_each_range(segments, begin, begin + count, [&](const SegmentRange& range) {
    auto* const at =
        static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(segments[range.segment].*which))) +
        range.begin * each;
    if (first == nullptr) first = next = at;
    whole = whole && at == next;
    next = at + range.count * each;
  });
  return whole ? first : nullptr;
}

[[nodiscard]] inline std::size_t total_count(std::span<const Segment> segments) {
  std::size_t total = 0;
  for (const auto& segment : segments) total += segment.count;
  return total;
}

/// Where rank `rank`'s share of `total` elements begins: shares are equal, but for the last ones, and begin
/// at whole cache lines (counted from the start of the whole). Rank `ranks` begins at the end.
[[nodiscard]] inline std::size_t share_begin(std::size_t total, std::size_t element_bytes, int rank,
                                             int ranks) {
  const std::size_t line = 64 / element_bytes;
  const std::size_t lines = (total + line - 1) / line;
  const auto shares = static_cast<std::size_t>(ranks);
  const std::size_t share = (lines + shares - 1) / shares * line;
  return std::min(total, share * static_cast<std::size_t>(rank));
}

}  // namespace hora
