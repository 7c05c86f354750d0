// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/segment_view.h"

namespace hora::tcp {

SegmentView::SegmentView(std::span<const Segment> segments, std::size_t each, Packing* packing)
    : segments_(segments), each_(each), packing_(packing) {
  begins_.reserve(segments.size() + 1);
  begins_.push_back(0);
  for (const auto& segment : segments) begins_.push_back(begins_.back() + segment.count);
}

/// The last one that begins at the element or before it.
std::size_t SegmentView::segment_of(std::size_t element) const {
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), element);
  return static_cast<std::size_t>(after - begins_.begin()) - 1;
}

Pieces SegmentView::inputs(std::size_t begin, std::size_t end) const {
  Pieces pieces;
  visit(begin, end,
        [&](const std::byte* input, std::byte* /*output*/, std::size_t /*offset*/, std::size_t n) {
          add_piece(pieces, input, n * each_);
        });
  return pieces;
}

Pieces SegmentView::outputs(std::size_t begin, std::size_t end) const {
  Pieces pieces;
  visit(begin, end,
        [&](const std::byte* /*input*/, std::byte* output, std::size_t /*offset*/, std::size_t n) {
          add_piece(pieces, output, n * each_);
        });
  return pieces;
}

}  // namespace hora::tcp
