// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/collective.h"
#include "core/device/stream.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace hora {

/// Sums of floats that travel as block-scaled floats of 8 bits.
///
///   quantize    each rank makes blocks of all its elements
///   alltoall    each rank gets its share of the blocks of every rank
///   sum         in float32, in the order of ranks
///
/// `reducescatter` ends here. `allreduce` goes on, and gives every rank the same bits:
///
///   quantize    each rank makes blocks of its share of the sum
///   allgather   each rank gets the shares of the result, and makes elements of them
///
/// Each segment, and each rank's part of a reducescatter, begins a block. So results depend neither on other
/// segments nor on how rounds are cut. All ranks cut alike. Refers to its constructor's arguments.
/// *Engine only.*
class BlockFloatSums {
 public:
  /// Gives so many bytes from the collective's `allocate`, aligned to 16, until its next call. Work on the
  /// stream may still use them afterwards. All ranks ask for the same number.
  using Memory = std::function<std::byte*(std::size_t bytes)>;

  /// `stream` is that of the collective's memory. `rank` and `ranks` are the collective's. A round needs a
  /// few times `round_bytes`, or a few blocks for each rank if that is more.
  BlockFloatSums(Stream& stream, Collective& collective, int rank, int ranks, std::size_t round_bytes,
                 Memory memory);

  /// `dtype`: of the segments' elements, a float of 16 to 64 bits. `reduction.dtype` is that of the blocks'
  /// elements; its op is sum. `flag`: null, or one of the stream, which is set if any element of the outputs
  /// is infinite or not a number. Throws what the collective throws.
  void allreduce(std::span<const Segment> segments, DType dtype, const Reduction& reduction,
                 std::uint32_t* flag);
  /// The same, but the output gets this rank's part alone. `counts` has the number of elements of each rank's
  /// part; the parts lie one after the other in the input. The sum is rounded to `dtype` once.
  void reducescatter(const Segment& segment, std::span<const std::size_t> counts, DType dtype,
                     const Reduction& reduction);

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
    std::vector<std::size_t> begins;  ///< of each rank's, aligned; and the end

    [[nodiscard]] std::size_t blocks() const { return begins.back(); }
    [[nodiscard]] std::size_t count(std::size_t rank) const { return begins[rank + 1] - begins[rank]; }
    /// The rank whose share has a block.
    [[nodiscard]] std::size_t rank_of(std::size_t block) const;
    /// Block `block`, in memory that has all of them.
    [[nodiscard]] BlockFloats place(std::byte* memory, std::size_t block) const;
    [[nodiscard]] std::vector<std::size_t> bytes() const;
  };

  /// The most blocks of all ranks in a round that needs `block_bytes` of memory for each.
  [[nodiscard]] std::size_t most_blocks(std::size_t block_bytes) const;
  /// The first rank's is the largest.
  [[nodiscard]] Shares equal_shares(std::size_t blocks) const;
  void allreduce_round(std::span<const Part> parts, std::size_t blocks, DType dtype,
                       const Reduction& reduction, std::byte* memory, std::uint32_t* flag);
  /// Makes blocks at `whole`, and gives each rank its share of all ranks' at `received`.
  void exchange(std::span<const BlockMove> moves, const Shares& shares, DType dtype,
                const Reduction& reduction, std::byte* whole, std::byte* received);
  /// This rank's share of the blocks of each rank, in memory that `exchange` has filled.
  [[nodiscard]] std::vector<BlockFloats> sources(std::byte* received, std::size_t own) const;
  /// output[i] = the sum of element i of all sources, times what the reduction says. `values`: memory for
  /// `some_blocks` of each source, as float32.
  void add(std::vector<BlockFloats> sources, std::size_t count, const Reduction& reduction, std::byte* values,
           std::byte* output, DType dtype);
  /// The blocks of each rank whose values, as float32, take what a round does.
  [[nodiscard]] std::size_t some_blocks() const;
  /// The parts, cut where shares begin, and their blocks in `memory`.
  [[nodiscard]] static std::vector<BlockMove> moves_of(std::span<const Part> parts, const Shares& shares,
                                                       std::size_t element_bytes, std::byte* memory);

  Stream& stream_;
  Collective& collective_;
  std::size_t rank_;
  std::size_t ranks_;
  std::size_t round_bytes_;
  Memory memory_;
};

}  // namespace hora
