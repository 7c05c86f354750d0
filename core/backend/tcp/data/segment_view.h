// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/traffic.h"
#include "core/comm/collective.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace hora::tcp {

/// All segments of an allreduce seen as one tensor, whose elements are counted through; or one segment that
/// is packed and unpacked in parts. A view: the segments stay the caller's.
class SegmentView {
 public:
  /// `each`: bytes of an element.
  SegmentView(std::span<const Segment> segments, std::size_t each, Packing* packing = nullptr);

  [[nodiscard]] std::size_t count() const { return begins_.back(); }
  [[nodiscard]] std::size_t bytes() const { return count() * each_; }
  [[nodiscard]] std::size_t each() const { return each_; }

  /// Where the elements [begin, end) lie.
  [[nodiscard]] Pieces inputs(std::size_t begin, std::size_t end) const;
  [[nodiscard]] Pieces outputs(std::size_t begin, std::size_t end) const;

  /// To be called before the inputs [begin, end) are read, and when these outputs are the result.
  void pack(std::size_t begin, std::size_t end) const {
    if (packing_ != nullptr && begin < end) packing_->pack(begin, end - begin);
  }
  void unpack(std::size_t begin, std::size_t end) const {
    if (packing_ != nullptr && begin < end) packing_->unpack(begin, end - begin);
  }

  /// Calls visit(input, output, offset, count) for each contiguous part of [begin, end), in order; `offset`:
  /// of the part in it, in elements.
  template <typename Visit>
  void visit(std::size_t begin, std::size_t end, const Visit& visit) const {
    for (std::size_t i = segment_of(begin); i < segments_.size() && begins_[i] < end; ++i) {
      const std::size_t from = std::max(begin, begins_[i]);
      const std::size_t to = std::min(end, begins_[i + 1]);
      if (from >= to) continue;
      const std::size_t skipped = (from - begins_[i]) * each_;
      visit(advanced(static_cast<const std::byte*>(segments_[i].input), skipped),
            advanced(static_cast<std::byte*>(segments_[i].output), skipped), from - begin, to - from);
    }
  }

 private:
  /// A segment that is only read has no output, and its parts have none.
  template <typename Byte>
  static Byte* advanced(Byte* memory, std::size_t bytes) {
    return memory == nullptr ? nullptr : memory + bytes;
  }
  [[nodiscard]] std::size_t segment_of(std::size_t element) const;

  std::span<const Segment> segments_;
  std::size_t each_;
  Packing* packing_;
  std::vector<std::size_t> begins_;  // of each segment, and the end of the last
};

/// Where part `part` of `parts` of `count` elements begins: all as long as each other, the last ones shorter
/// or empty.
[[nodiscard]] inline std::size_t part_begin(std::size_t count, std::size_t part, std::size_t parts) {
  return std::min(count, (count + parts - 1) / parts * part);
}

}  // namespace hora::tcp
