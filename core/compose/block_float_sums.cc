// SPDX-License-Identifier: Apache-2.0
#include "core/compose/block_float_sums.h"

#include <algorithm>

namespace hora {
namespace {

constexpr std::size_t kAlign = 16;  // blocks: their scales take 16 bytes, which GPUs move at a time

std::size_t whole_alignments(std::size_t blocks) { return (blocks + kAlign - 1) / kAlign * kAlign; }

/// The blocks from `block` on, of `count` that begin at `memory`.
BlockFloats blocks_at(std::byte* memory, std::size_t count, std::size_t block) {
  return {memory + block * kBlockFloats, memory + count * kBlockFloats + block};
}

}  // namespace

std::size_t BlockFloatSums::Shares::begin(std::size_t rank) const { return std::min(each * rank, blocks); }

BlockFloats BlockFloatSums::Shares::place(std::byte* memory, std::size_t block) const {
  const std::size_t rank = block / each;
  return blocks_at(memory + begin(rank) * kBlockBytes, count(rank), block - begin(rank));
}

BlockFloatSums::BlockFloatSums(Stream& stream, Collective& collective, int rank, int ranks,
                               std::size_t round_bytes)
    : stream_(stream),
      collective_(collective),
      rank_(static_cast<std::size_t>(rank)),
      ranks_(static_cast<std::size_t>(ranks)),
      round_bytes_(round_bytes) {}

BlockFloatSums::Shares BlockFloatSums::shares_of(std::size_t blocks) const {
  const std::size_t all = whole_alignments(blocks);
  return {all, whole_alignments((all + ranks_ - 1) / ranks_)};
}

/// The most blocks of a round.
std::size_t BlockFloatSums::capacity(std::span<const Segment> segments) const {
  std::size_t blocks = 0;
  for (const auto& segment : segments) blocks += blocks_of(segment.count);
  const std::size_t least = kAlign * ranks_;
  const std::size_t most = std::max(round_bytes_ / kBlockBytes / least, std::size_t{1}) * least;
  return std::min(blocks, most);
}

/// All blocks of a rank; this rank's share of all ranks; this rank's share of the result.
std::size_t BlockFloatSums::memory_bytes(std::span<const Segment> segments) const {
  const Shares shares = shares_of(capacity(segments));
  return (shares.blocks + (ranks_ + 1) * shares.each) * kBlockBytes;
}

void BlockFloatSums::allreduce(std::span<const Segment> segments, DType dtype, const Reduction& reduction,
                               std::byte* memory, std::uint32_t* flag) {
  const std::size_t most = capacity(segments);
  std::vector<Part> parts;
  std::size_t used = 0;
  for (const auto& segment : segments) {
    for (std::size_t begin = 0; begin < segment.count;) {
      if (used == most) {
        carry_out(parts, used, dtype, reduction, memory, flag);
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
  if (!parts.empty()) carry_out(parts, used, dtype, reduction, memory, flag);
}

// The blocks up to the alignment travel behind the last one of a round, and their values mean nothing.
void BlockFloatSums::carry_out(std::span<const Part> parts, std::size_t blocks, DType dtype,
                               const Reduction& reduction, std::byte* memory, std::uint32_t* flag) {
  const DType format = reduction.dtype;
  const Shares shares = shares_of(blocks);
  const std::size_t own = shares.count(rank_);
  std::byte* const whole = memory;
  std::byte* const received = whole + shares.blocks * kBlockBytes;
  std::byte* const result = received + ranks_ * shares.each * kBlockBytes;  // the same place on all ranks

  const std::vector<BlockMove> moves = moves_of(parts, shares, size_of(dtype), whole);
  stream_.quantize(moves, {format, dtype, reduction.prescale});
  std::vector<std::size_t> bytes(ranks_);
  for (std::size_t rank = 0; rank < ranks_; ++rank) bytes[rank] = shares.count(rank) * kBlockBytes;
  std::vector<std::size_t> all;
  for (std::size_t from = 0; from < ranks_; ++from) all.insert(all.end(), bytes.begin(), bytes.end());
  collective_.alltoall(whole, received, all);

  std::vector<BlockFloats> sources;
  for (std::size_t rank = 0; rank < ranks_; ++rank)
    sources.push_back(blocks_at(received + rank * own * kBlockBytes, own, 0));
  stream_.sum_blocks(blocks_at(result, own, 0), sources, format, own,
                     reduction.postscale / reduction.divisor);
  collective_.allgather(result, whole, bytes);
  stream_.dequantize(moves, {format, dtype, 1.0, flag});
}

std::vector<BlockMove> BlockFloatSums::moves_of(std::span<const Part> parts, const Shares& shares,
                                                std::size_t element_bytes, std::byte* memory) {
  std::vector<BlockMove> moves;
  for (const auto& part : parts) {
    std::size_t block = part.first_block;
    for (std::size_t begin = 0; begin < part.count;) {
      const std::size_t end = shares.begin(block / shares.each + 1);  // of the share that has the block
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
