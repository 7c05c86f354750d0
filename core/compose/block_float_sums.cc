// SPDX-License-Identifier: Apache-2.0
#include "core/compose/block_float_sums.h"

#include <algorithm>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kAlign = 16;  // blocks: their scales take 16 bytes, which GPUs move at a time
constexpr std::size_t kValueBytes = kBlockFloats * sizeof(float);  // of a block, as float32

std::size_t whole_alignments(std::size_t blocks) { return (blocks + kAlign - 1) / kAlign * kAlign; }

/// The blocks from `block` on, of `count` that begin at `memory`.
BlockFloats blocks_at(std::byte* memory, std::size_t count, std::size_t block) {
  return {memory + block * kBlockFloats, memory + count * kBlockFloats + block};
}

}  // namespace

std::size_t BlockFloatSums::Shares::rank_of(std::size_t block) const {
  return static_cast<std::size_t>(std::upper_bound(begins.begin(), begins.end(), block) - begins.begin()) - 1;
}

BlockFloats BlockFloatSums::Shares::place(std::byte* memory, std::size_t block) const {
  const std::size_t rank = rank_of(block);
  return blocks_at(memory + begins[rank] * kBlockBytes, count(rank), block - begins[rank]);
}

std::vector<std::size_t> BlockFloatSums::Shares::bytes() const {
  std::vector<std::size_t> bytes;
  for (std::size_t rank = 0; rank + 1 < begins.size(); ++rank) bytes.push_back(count(rank) * kBlockBytes);
  return bytes;
}

BlockFloatSums::BlockFloatSums(Stream& stream, Collective& collective, int rank, int ranks,
                               std::size_t round_bytes, Memory memory)
    : stream_(stream),
      collective_(collective),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      round_bytes_(round_bytes),
      memory_(std::move(memory)) {}

std::size_t BlockFloatSums::most_blocks(std::size_t block_bytes) const {
  const std::size_t least = kAlign * ranks_;
  return std::max(round_bytes_ / block_bytes / least, std::size_t{1}) * least;
}

std::size_t BlockFloatSums::some_blocks() const { return most_blocks(kValueBytes) / ranks_; }

BlockFloatSums::Shares BlockFloatSums::equal_shares(std::size_t blocks) const {
  const std::size_t all = whole_alignments(blocks);
  const std::size_t each = whole_alignments((all + ranks_ - 1) / ranks_);
  Shares shares;
  for (std::size_t rank = 0; rank <= ranks_; ++rank) shares.begins.push_back(std::min(each * rank, all));
  return shares;
}

void BlockFloatSums::allreduce(std::span<const Segment> segments, DType dtype, const Reduction& reduction,
                               std::uint32_t* flag) {
  std::size_t all = 0;
  for (const auto& segment : segments) all += blocks_of(segment.count);
  const std::size_t most = std::min(all, most_blocks(kBlockBytes));
  const Shares largest = equal_shares(most);
  // All blocks of a rank; this rank's share of all ranks; this rank's share of the result.
  std::byte* const memory = memory_((largest.blocks() + (ranks_ + 1) * largest.count(0)) * kBlockBytes);
  std::vector<Part> parts;
  std::size_t used = 0;
  for (const auto& segment : segments) {
    for (std::size_t begin = 0; begin < segment.count;) {
      if (used == most) {
        allreduce_round(parts, used, dtype, reduction, memory, flag);
        parts.clear();
        used = 0;
      }
      const std::size_t count = std::min(segment.count - begin, (most - used) * kBlockFloats);
      parts.push_back({static_cast<const std::byte*>(segment.input) + begin * size_of(dtype),
                       static_cast<std::byte*>(segment.output) + begin * size_of(dtype), count, used});
      used += blocks_of(count);
      begin += count;
    }
  }
  if (!parts.empty()) allreduce_round(parts, used, dtype, reduction, memory, flag);
}

// The blocks up to the alignment travel behind the last one of a share, and their values mean nothing.
void BlockFloatSums::allreduce_round(std::span<const Part> parts, std::size_t blocks, DType dtype,
                                     const Reduction& reduction, std::byte* memory, std::uint32_t* flag) {
  const Shares shares = equal_shares(blocks);
  const std::size_t own = shares.count(rank_);
  std::byte* const whole = memory;
  std::byte* const received = whole + shares.blocks() * kBlockBytes;
  std::byte* const result = received + ranks_ * shares.count(0) * kBlockBytes;  // the same place on all ranks
  const std::vector<BlockMove> moves = moves_of(parts, shares, size_of(dtype), whole);
  exchange(moves, shares, dtype, reduction, whole, received);
  stream_.sum_blocks(blocks_at(result, own, 0), sources(received, own), reduction.dtype, own,
                     reduction.postscale / reduction.divisor);
  collective_.allgather(result, whole, shares.bytes());
  stream_.dequantize(moves, {reduction.dtype, dtype, 1.0, flag});
}

void BlockFloatSums::reducescatter(const Segment& segment, std::span<const std::size_t> counts, DType dtype,
                                   const Reduction& reduction) {
  const std::size_t longest = *std::max_element(counts.begin(), counts.end());
  const std::size_t most = std::min(whole_alignments(blocks_of(longest)), most_blocks(kBlockBytes) / ranks_);
  // The elements of a part of `count` elements in the round that begins at `begin`.
  const auto length = [&](std::size_t count, std::size_t begin) {
    return std::min(count - std::min(begin, count), most * kBlockFloats);
  };
  const auto shares_from = [&](std::size_t begin) {
    Shares shares{{0}};
    for (const std::size_t count : counts)
      shares.begins.push_back(shares.begins.back() + whole_alignments(blocks_of(length(count, begin))));
    return shares;
  };
  const std::size_t whole_bytes = shares_from(0).blocks() * kBlockBytes;
  // All blocks of a rank; this rank's share of all ranks; and some of its values.
  std::byte* const whole =
      memory_(whole_bytes + ranks_ * (most * kBlockBytes + std::min(most, some_blocks()) * kValueBytes));
  std::byte* const received = whole + whole_bytes;
  std::byte* const values = received + ranks_ * most * kBlockBytes;
  for (std::size_t begin = 0; begin < longest; begin += most * kBlockFloats) {
    const Shares shares = shares_from(begin);
    std::vector<Part> parts;
    const auto* input = static_cast<const std::byte*>(segment.input);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (const std::size_t count = length(counts[rank], begin); count > 0)
        parts.push_back({input + begin * size_of(dtype), nullptr, count, shares.begins[rank]});
      input += counts[rank] * size_of(dtype);
    }
    exchange(moves_of(parts, shares, size_of(dtype), whole), shares, dtype, reduction, whole, received);
    const std::size_t own = length(counts[rank_], begin);
    if (own == 0) continue;
    add(sources(received, shares.count(rank_)), own, reduction, values,
        static_cast<std::byte*>(segment.output) + begin * size_of(dtype), dtype);
  }
}

void BlockFloatSums::add(std::vector<BlockFloats> sources, std::size_t count, const Reduction& reduction,
                         std::byte* values, std::byte* output, DType dtype) {
  const double factor = reduction.postscale / reduction.divisor;
  while (count > 0) {
    const std::size_t some = std::min(count, some_blocks() * kBlockFloats);
    std::vector<BlockMove> moves;
    std::vector<const void*> added;
    for (BlockFloats& source : sources) {
      std::byte* const place = values + added.size() * blocks_of(some) * kValueBytes;
      moves.push_back({source, nullptr, place, some});
      added.push_back(place);
      source = {source.elements + some, source.scales + blocks_of(some)};
    }
    stream_.dequantize(moves, {reduction.dtype, DType::float32});
    std::byte* const sum = dtype == DType::float32 ? output : values;
    stream_.sum(sum, added, some, DType::float32, factor);
    const Move narrowed{output, values, some};
    if (sum == values) stream_.move({&narrowed, 1}, {dtype, DType::float32});
    output += some * size_of(dtype);
    count -= some;
  }
}

void BlockFloatSums::exchange(std::span<const BlockMove> moves, const Shares& shares, DType dtype,
                              const Reduction& reduction, std::byte* whole, std::byte* received) {
  stream_.quantize(moves, {reduction.dtype, dtype, reduction.prescale});
  const std::vector<std::size_t> bytes = shares.bytes();
  std::vector<std::size_t> all;
  for (std::size_t from = 0; from < ranks_; ++from) all.insert(all.end(), bytes.begin(), bytes.end());
  collective_.alltoall(whole, received, all);
}

std::vector<BlockFloats> BlockFloatSums::sources(std::byte* received, std::size_t own) const {
  std::vector<BlockFloats> sources;
  for (std::size_t rank = 0; rank < ranks_; ++rank)
    sources.push_back(blocks_at(received + rank * own * kBlockBytes, own, 0));
  return sources;
}

std::vector<BlockMove> BlockFloatSums::moves_of(std::span<const Part> parts, const Shares& shares,
                                                std::size_t element_bytes, std::byte* memory) {
  std::vector<BlockMove> moves;
  for (const auto& part : parts) {
    std::size_t block = part.first_block;
    for (std::size_t begin = 0; begin < part.count;) {
      const std::size_t end = shares.begins[shares.rank_of(block) + 1];  // of the share that has the block
      const std::size_t count = std::min(part.count - begin, (end - block) * kBlockFloats);
      moves.push_back({shares.place(memory, block), part.input + begin * element_bytes,
                       part.output + begin * element_bytes, count});
      block += blocks_of(count);
      begin += count;
    }
  }
  return moves;
}

}  // namespace hora
