// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/nccl/lane_communicators.h"
#include "core/comm/collective.h"

#include <cstddef>
#include <span>

namespace hora::nccl {

/// Sums of 16-bit floats that travel as such and are added in float32, in the order of ranks, with one
/// rounding. Every rank gets its share of what all ranks have, sums it, and hands the result out: as many
/// bytes as a ring moves. Steps are so long that what a rank gets fits into a scratch memory of 32 MiB.
/// Arguments are as of Collective; there are at least two ranks. *Engine only.*
class Float32Sums {
 public:
  Float32Sums(LaneCommunicators& lane, Communicator& communicator, int rank, int ranks)
      : lane_(lane),
        communicator_(communicator),
        rank_(static_cast<std::size_t>(rank)),
        ranks_(static_cast<std::size_t>(ranks)) {}

  void allreduce(std::span<const Segment> segments, DType dtype, double factor);
  void reducescatter(const void* input, void* output, std::span<const std::size_t> counts, DType dtype,
                     double factor);

 private:
  /// Elements of a segment, of which each rank sums a share of `share` elements, or what is left.
  struct Part {
    const std::byte* input = nullptr;
    std::byte* output = nullptr;
    std::size_t count = 0;
    std::size_t share = 0;
    std::byte* room = nullptr;  ///< for this rank's share of all other ranks
  };

  [[nodiscard]] std::size_t share_of(std::size_t count) const;
  [[nodiscard]] std::size_t begin_of(const Part& part, std::size_t rank) const;
  [[nodiscard]] std::size_t count_of(const Part& part, std::size_t rank) const;
  void step(std::span<Part> parts, DType dtype, double factor);
  void scatter(std::span<const Part> parts);
  void sum(const Part& part, DType dtype, double factor);
  void gather(std::span<const Part> parts);
  void scatter_range(const std::byte* input, std::span<const std::size_t> counts, std::size_t begin,
                     std::size_t most, std::byte* room);
  /// Sums `count` elements: this rank's at `own`, the others' at `room`, one after the other.
  void sum_all(std::byte* to, const std::byte* own, const std::byte* room, std::size_t count, DType dtype,
               double factor);

  LaneCommunicators& lane_;
  Communicator& communicator_;
  std::size_t rank_;
  std::size_t ranks_;
};

}  // namespace hora::nccl
