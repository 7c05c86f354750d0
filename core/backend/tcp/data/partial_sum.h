// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/tcp/data/segment_view.h"
#include "core/device/kernels.h"

namespace hora::tcp {

/// How a reduction is done in steps on different ranks: what a sum of some ranks' elements is made of while
/// it travels. (A "sum" may be a product, minimum or maximum.)
///
/// Sums of 16-bit floats travel as float32. A sum that is rounded to 16 bits at every rank it passes loses up
/// to half a unit in the last place each time, which for 64 ranks is three of its ten bits, and adds small
/// gradients to large ones for nothing at all; in float32 the only rounding that matters is the last one.
/// That doubles the bytes of the first half of an allreduce, so that these algorithms need 1.5 times what
/// direct shares need, of which every rank sees all inputs; with few ranks those are used. A value.
class PartialSum {
 public:
  explicit PartialSum(const Reduction& reduction);

  /// Whether sums of this kind can travel. Averages of integers cannot: they are summed in more bits.
  [[nodiscard]] static bool travels(const Reduction& reduction);

  /// Bytes of an element of a sum.
  [[nodiscard]] std::size_t each() const { return size_of(dtype_); }

  /// sums = the inputs [begin, end), scaled as the reduction wants them first.
  void load(std::byte* sums, const SegmentView& view, std::size_t begin, std::size_t end) const;
  /// sums = low + high, of which `sums` may be one. `low` is that with the lower rank.
  void add(std::byte* sums, const std::byte* low, const std::byte* high, std::size_t count) const;
  /// The outputs [begin, end) = the sums, which are complete, scaled, and rounded once. Overwrites the sums.
  void store(const SegmentView& view, std::size_t begin, std::size_t end, std::byte* sums) const;

 private:
  Reduction reduction_;
  DType dtype_;  // of sums
};

}  // namespace hora::tcp
