// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/device/stream.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace hora {

/// Sums of floats that travel as block-scaled floats of 8 bits. Every rank gets the same bits.
///
///   quantize    each rank makes blocks of all its elements
///   alltoall    each rank gets its share of the blocks of every rank
///   sum         in float32, in the order of ranks; then blocks again
///   allgather   each rank gets the shares of the result, and makes elements of them
///
/// Each segment begins a block, so results depend neither on the other segments nor on how rounds are cut.
/// A round is so long that its blocks take `round_bytes` at most, or a few blocks for each rank if that is
/// more; all ranks cut alike. Refers to its constructor's arguments. *Engine only.*
class BlockFloatSums {
 public:
  /// `stream` is that of the collective's memory. `rank` and `ranks` are the collective's.
  BlockFloatSums(Stream& stream, Collective& collective, int rank, int ranks, std::size_t round_bytes);

  /// The memory that `allreduce` needs for these segments.
  [[nodiscard]] std::size_t memory_bytes(std::span<const Segment> segments) const;

  /// `dtype`: of the segments' elements, a float of 16 to 64 bits. `reduction.dtype` is that of the blocks'
  /// elements; its op is sum. `memory` comes from the collective's `allocate`, and is aligned to 16 bytes;
  /// work on the stream may still use it afterwards. `flag`: null, or one of the stream, which is set if any
  /// element of the outputs is infinite or not a number. Throws what the collective throws.
  void allreduce(std::span<const Segment> segments, DType dtype, const Reduction& reduction,
                 std::byte* memory, std::uint32_t* flag);

 private:
  /// A part of a segment in a round.
  struct Part {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::size_t count = 0;
    std::size_t first_block = 0;  ///< in the round
  };
  /// How the blocks of a round are shared, and where they lie: those of each rank side by side, first all
  /// their elements, then their scales.
  struct Shares {
    std::size_t blocks = 0;  ///< of all ranks
    std::size_t each = 0;    ///< of a rank; the last ones have fewer

    [[nodiscard]] std::size_t begin(std::size_t rank) const;
    [[nodiscard]] std::size_t count(std::size_t rank) const { return begin(rank + 1) - begin(rank); }
    /// Block `block`, in memory that has all of them.
    [[nodiscard]] BlockFloats place(std::byte* memory, std::size_t block) const;
  };

  [[nodiscard]] std::size_t capacity(std::span<const Segment> segments) const;
  [[nodiscard]] Shares shares_of(std::size_t blocks) const;
  void carry_out(std::span<const Part> parts, std::size_t blocks, DType dtype, const Reduction& reduction,
                 std::byte* memory, std::uint32_t* flag);
  /// The parts, cut where shares begin, and their blocks in `memory`.
  [[nodiscard]] static std::vector<BlockMove> moves_of(std::span<const Part> parts, const Shares& shares,
                                                       std::size_t element_bytes, std::byte* memory);

  Stream& stream_;
  Collective& collective_;
  std::size_t rank_;
  std::size_t ranks_;
  std::size_t round_bytes_;
};

}  // namespace hora
