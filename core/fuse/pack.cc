// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/pack.h"

#include "core/fuse/lines.h"

#include <algorithm>

namespace hora {
namespace {

constexpr std::size_t kMostAhead = std::size_t{64} << 20;  // of memory that is taken before it is needed

/// Takes the factor of a sum of floats out of a reduction: each rank may as well multiply with it before.
double take_factor(Reduction& reduction) {
  if (!is_float(reduction.dtype) || reduction.op != ReduceOp::sum) return 1.0;
  const double factor = reduction.prescale * reduction.postscale / reduction.divisor;
  reduction.prescale = reduction.postscale = 1.0;
  reduction.divisor = 1;
  return factor;
}

/// The segments to reduce, in which neighbours in symmetric memory are one.
std::vector<Segment> joined(std::vector<Segment> pieces, std::size_t each) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const Segment& a, const Segment& b) {
    return a.symmetric_address < b.symmetric_address;
  });
  std::vector<Segment> segments;
  std::uint64_t next = 0;  // the symmetric address that would go on where the last segment ends
  for (const auto& piece : pieces) {
    if (piece.symmetric_address != 0 && piece.symmetric_address == next) {
      Segment& last = segments.back();
      const auto* begin = static_cast<const std::byte*>(last.input);
      last.count =
          static_cast<std::size_t>(static_cast<const std::byte*>(piece.input) - begin) / each + piece.count;
    } else {
      segments.push_back(piece);
    }
    const std::size_t bytes = piece.count * each;
    const bool ends_line = piece.padded || bytes % kCacheLine == 0;  // else what follows is another's
    next = piece.symmetric_address != 0 && ends_line ? piece.symmetric_address + whole_lines(bytes) : 0;
  }
  return segments;
}

}  // namespace

/// Pieces on their way through the wire buffer. If all come and go at once, that is noted as stages; in parts
/// these are too many and too short.
class Packer::Round final : public Packing {
 public:
  Round(Packer& packer, std::span<const Segment> pieces, std::byte* wire, const Conversion& in,
        const Conversion& out)
      : packer_(packer), pieces_(pieces), wire_(wire), in_(in), out_(out) {
    const std::size_t each = size_of(in.to);
    begins_.reserve(pieces.size() + 1);
    begins_.push_back(0);
    for (const auto& piece : pieces)
      begins_.push_back(begins_.back() + whole_lines(piece.count * each) / each);
  }

  /// Elements of the buffer, with what lies between pieces.
  [[nodiscard]] std::size_t total() const { return begins_.back(); }
  /// Whether all were unpacked at once.
  [[nodiscard]] bool is_whole() const { return is_whole_; }

  void pack(std::size_t begin, std::size_t count) override {
    const std::size_t to = size_of(in_.to);
    const std::size_t from = size_of(in_.from);
    list(begin, count, [&](const Segment& piece, std::size_t skipped, std::size_t at, std::size_t length) {
      return Move{wire_ + at * to, static_cast<const std::byte*>(piece.input) + skipped * from, length};
    });
    packer_.lane_.stream->move(moves_, in_);
    if (count == total()) packer_.end(Stage::pack);
  }

  void unpack(std::size_t begin, std::size_t count) override {
    is_whole_ = count == total();
    if (is_whole_) packer_.end(Stage::transfer);
    const std::size_t to = size_of(out_.to);
    const std::size_t from = size_of(out_.from);
    list(begin, count, [&](const Segment& piece, std::size_t skipped, std::size_t at, std::size_t length) {
      return Move{static_cast<std::byte*>(piece.output) + skipped * to, wire_ + at * from, length};
    });
    packer_.lane_.stream->move(moves_, out_);
    if (is_whole_) packer_.end(Stage::unpack);
  }

 private:
  /// Makes `moves_` those of elements [begin, begin + count): move(piece, elements of it before, where in the
  /// wire buffer, length).
  template <typename MoveOf>
  void list(std::size_t begin, std::size_t count, const MoveOf& move) {
    moves_.clear();
    const std::size_t end = begin + count;
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
    for (auto i = static_cast<std::size_t>(after - begins_.begin()) - 1;
         i < pieces_.size() && begins_[i] < end; ++i) {
      const std::size_t from = std::max(begin, begins_[i]);
      const std::size_t to = std::min(end, begins_[i] + pieces_[i].count);
      if (from >= to) continue;  // only what lies between pieces
      moves_.push_back(move(pieces_[i], from - begins_[i], from, to - from));
    }
  }

  Packer& packer_;
  std::span<const Segment> pieces_;
  std::byte* wire_;
  Conversion in_;
  Conversion out_;
  std::vector<std::size_t> begins_;  // of each piece in the buffer, in elements; and the end
  std::vector<Move> moves_;
  bool is_whole_ = false;
};

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

void Packer::allreduce(std::span<const Segment> pieces, DType dtype, const Reduction& reduction,
                       std::uint32_t* flag) {
  begin();
  if (dtype != reduction.dtype) return reduce_compressed(pieces, dtype, reduction, flag);
  if (lane_.fuses) return reduce_fused(pieces, reduction, flag);
  reduce_where_it_lies(pieces, reduction, flag);
}

void Packer::reducescatter(const Segment& piece, std::span<const std::size_t> counts, std::size_t own,
                           DType dtype, const Reduction& reduction) {
  begin();
  if (dtype == reduction.dtype) {
    lane_.collective->reducescatter(piece.input, piece.output, counts, reduction);
    return end(Stage::transfer);
  }
  const std::size_t whole = whole_lines(piece.count * size_of(reduction.dtype));
  // The largest part and not one's own: the collective may know its memory to be equally large on all ranks.
  const std::size_t most = *std::max_element(counts.begin(), counts.end());
  std::byte* wire = buffer(whole + most * size_of(reduction.dtype));
  Reduction rest = reduction;
  const double factor = lane_.fuses ? take_factor(rest) : 1.0;
  const Move there{wire, piece.input, piece.count};
  lane_.stream->move({&there, 1}, {reduction.dtype, dtype, factor});
  end(Stage::pack);
  lane_.collective->reducescatter(wire, wire + whole, counts, rest);
  end(Stage::transfer);
  const Move back{piece.output, wire + whole, own};
  lane_.stream->move({&back, 1}, {dtype, reduction.dtype});
  end(Stage::unpack);
}

std::size_t Packer::round_bytes() const {
  return std::max(whole_lines(std::min(threshold_, lane_.collective->best_round())), kCacheLine);
}

std::byte* Packer::buffer(std::size_t bytes, std::size_t rounds) {
  if (bytes > buffer_bytes_) {
    // All that may travel together, so that it is made once; but not if that is far more than is ever needed.
    const std::size_t size = std::max(bytes, rounds * std::min(round_bytes(), kMostAhead));
    buffer_bytes_ = 0;
    if (buffer_) outgrown_.push_back(std::move(buffer_));
    buffer_ = lane_.collective->allocate(size);
    buffer_bytes_ = size;
  }
  return buffer_.get();
}

void Packer::reduce_where_it_lies(std::span<const Segment> pieces, const Reduction& reduction,
                                  std::uint32_t* flag) {
  const std::size_t each = size_of(reduction.dtype);
  const auto strays = [&](const Segment& piece) {
    return piece.count * each < lane_.collective->pack_below() &&
           !(lane_.collective->owns(piece.input) && lane_.collective->owns(piece.output));
  };
  std::size_t packed = 0;
  for (const auto& piece : pieces) {
    if (strays(piece)) packed += whole_lines(piece.count * each);
  }
  std::byte* place = packed > 0 ? buffer(packed) : nullptr;
  std::vector<Segment> segments;
  std::vector<Move> there;
  std::vector<Move> back;
  for (const auto& piece : pieces) {
    if (!strays(piece)) {
      segments.push_back({piece.input, piece.output, piece.count});
      continue;
    }
    there.push_back({place, piece.input, piece.count});
    back.push_back({piece.output, place, piece.count});
    segments.push_back({place, place, piece.count});
    place += whole_lines(piece.count * each);
  }
  lane_.stream->move(there, {reduction.dtype, reduction.dtype});
  if (packed > 0) end(Stage::pack);
  lane_.collective->allreduce(segments, reduction);
  end(Stage::transfer);
  lane_.stream->move(back, {reduction.dtype, reduction.dtype});
  if (packed > 0) end(Stage::unpack);
  look_at(pieces, reduction.dtype, flag);
}

void Packer::reduce_fused(std::span<const Segment> pieces, const Reduction& reduction, std::uint32_t* flag) {
  const std::size_t each = size_of(reduction.dtype);
  std::vector<Segment> small;
  std::vector<Segment> others;
  for (const auto& piece : pieces) {
    const bool packed = piece.symmetric_address == 0 && piece.count * each < lane_.collective->pack_below();
    (packed ? small : others).push_back(piece);
  }
  if (!small.empty()) reduce_compressed(small, reduction.dtype, reduction, flag);
  if (others.empty()) return;
  lane_.collective->allreduce(joined(others, each), reduction);
  end(Stage::transfer);
  look_at(others, reduction.dtype, flag);
}

void Packer::look_at(std::span<const Segment> pieces, DType dtype, std::uint32_t* flag) {
  if (flag == nullptr) return;
  std::vector<Move> looks;
  for (const auto& piece : pieces) looks.push_back({nullptr, piece.output, piece.count});
  lane_.stream->move(looks, {dtype, dtype, 1.0, flag});
}

void Packer::reduce_compressed(std::span<const Segment> pieces, DType dtype, Reduction reduction,
                               std::uint32_t* flag) {
  const std::size_t each = size_of(reduction.dtype);
  std::size_t total = kCacheLine;  // for the sake of tensors without elements
  for (const auto& piece : pieces) total += whole_lines(piece.count * each);
  const std::size_t capacity = std::min(total, round_bytes());
  std::byte* wire = buffer(capacity);
  const double factor = lane_.fuses ? take_factor(reduction) : 1.0;
  std::vector<Segment> round;
  std::size_t used = 0;
  const auto carry_out = [&] {
    reduce_round(round, wire, dtype, reduction, factor, flag);
    round.clear();
    used = 0;
  };
  for (Segment rest : pieces) {
    while (rest.count > 0) {
      if (used == capacity) carry_out();
      const std::size_t length = std::min(rest.count, (capacity - used) / each);
      round.push_back({rest.input, rest.output, length});
      used += whole_lines(length * each);
      rest.input = static_cast<const std::byte*>(rest.input) + length * size_of(dtype);
      rest.output = static_cast<std::byte*>(rest.output) + length * size_of(dtype);
      rest.count -= length;
    }
  }
  if (!round.empty()) carry_out();
}

void Packer::reduce_round(std::span<const Segment> round, std::byte* wire, DType dtype,
                          const Reduction& reduction, double factor, std::uint32_t* flag) {
  Round packing(*this, round, wire, {reduction.dtype, dtype, factor}, {dtype, reduction.dtype, 1.0, flag});
  const Segment segment{wire, wire, packing.total(), kSomeSymmetricAddress};
  lane_.collective->allreduce_packed(segment, reduction, packing);
  if (!packing.is_whole()) end(Stage::transfer);
}

}  // namespace hora
