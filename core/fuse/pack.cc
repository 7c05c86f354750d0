// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/pack.h"

#include <algorithm>

namespace hora {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kMostAhead = std::size_t{64} << 20;  // of memory that is taken before it is needed

std::size_t whole_lines(std::size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }

}  // namespace

void Packer::begin() {
  spans_.clear();
  if (notes_spans_) stage_began_ = Clock::now();
}

void Packer::end(Stage stage) {
  if (!notes_spans_) return;
  const TimePoint now = Clock::now();
  spans_.push_back({stage, stage_began_, now});
  stage_began_ = now;
}

void Packer::allreduce(std::span<const Piece> pieces, DType dtype, const Reduction& reduction) {
  begin();
  if (dtype == reduction.dtype) {
    reduce_where_it_lies(pieces, reduction);
  } else {
    reduce_compressed(pieces, dtype, reduction);
  }
}

void Packer::reducescatter(const Piece& piece, std::span<const std::size_t> counts, std::size_t own,
                           DType dtype, const Reduction& reduction) {
  begin();
  if (dtype == reduction.dtype) {
    lane_.collective->reducescatter(piece.input, piece.output, counts, reduction);
    return end(Stage::transfer);
  }
  const std::size_t whole = whole_lines(piece.count * size_of(reduction.dtype));
  std::byte* wire = buffer(whole + own * size_of(reduction.dtype));
  lane_.stream->cast(wire, reduction.dtype, piece.input, dtype, piece.count);
  end(Stage::pack);
  lane_.collective->reducescatter(wire, wire + whole, counts, reduction);
  end(Stage::transfer);
  lane_.stream->cast(piece.output, dtype, wire + whole, reduction.dtype, own);
  end(Stage::unpack);
}

std::byte* Packer::buffer(std::size_t bytes) {
  if (bytes > buffer_bytes_) {
    // All that may travel together, so that it is made once; but not if that is far more than is ever needed.
    const std::size_t size = std::max(bytes, std::min(threshold_, kMostAhead));
    buffer_bytes_ = 0;
    buffer_.reset();
    buffer_ = lane_.collective->allocate(size);
    buffer_bytes_ = size;
  }
  return buffer_.get();
}

void Packer::reduce_where_it_lies(std::span<const Piece> pieces, const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  const auto strays = [&](const Piece& piece) {
    return piece.count * each < lane_.collective->pack_below() &&
           !(lane_.collective->owns(piece.input) && lane_.collective->owns(piece.output));
  };
  std::size_t packed = 0;
  for (const auto& piece : pieces) {
    if (strays(piece)) packed += whole_lines(piece.count * each);
  }
  std::byte* place = packed > 0 ? buffer(packed) : nullptr;
  std::vector<Segment> segments;
  segments.reserve(pieces.size());
  for (const auto& piece : pieces) {
    if (strays(piece)) {
      lane_.stream->copy(place, piece.input, piece.count * each);
      segments.push_back({place, place, piece.count});
      place += whole_lines(piece.count * each);
    } else {
      segments.push_back({piece.input, piece.output, piece.count});
    }
  }
  if (packed > 0) end(Stage::pack);
  lane_.collective->allreduce(segments, reduction);
  end(Stage::transfer);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    if (strays(pieces[i])) lane_.stream->copy(pieces[i].output, segments[i].output, pieces[i].count * each);
  }
  if (packed > 0) end(Stage::unpack);
}

void Packer::reduce_compressed(std::span<const Piece> pieces, DType dtype, const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  std::size_t total = 1;  // for the sake of tensors without elements
  for (const auto& piece : pieces) total += piece.count;
  const std::size_t capacity = std::min(total, std::max(threshold_ / each, kCacheLine));  // elements a round
  std::byte* wire = buffer(capacity * each);
  std::size_t next = 0;  // the piece, and how much of it has been reduced
  std::size_t begin = 0;
  while (next < pieces.size()) {
    const std::size_t first = next;
    const std::size_t first_begin = begin;
    std::vector<std::size_t> lengths;
    std::size_t used = 0;
    while (next < pieces.size() && used < capacity) {
      const auto* from = static_cast<const std::byte*>(pieces[next].input) + begin * size_of(dtype);
      const std::size_t length = std::min(pieces[next].count - begin, capacity - used);
      lane_.stream->cast(wire + used * each, reduction.dtype, from, dtype, length);
      lengths.push_back(length);
      used += length;
      begin += length;
      if (begin == pieces[next].count) {
        ++next;
        begin = 0;
      }
    }
    const Segment segment{wire, wire, used};
    end(Stage::pack);
    lane_.collective->allreduce({&segment, 1}, reduction);
    end(Stage::transfer);
    used = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      auto* to =
          static_cast<std::byte*>(pieces[first + i].output) + (i == 0 ? first_begin : 0) * size_of(dtype);
      lane_.stream->cast(to, dtype, wire + used * each, reduction.dtype, lengths[i]);
      used += lengths[i];
    }
    end(Stage::unpack);
  }
}

}  // namespace hora
