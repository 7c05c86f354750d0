// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/device/kernels.h"

#include <hora/status.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>

namespace hora {

inline constexpr std::size_t kRoundInCache = 512 * 1024;  ///< see Collective::best_round

/// A tensor to be reduced, or a part of one: `count` elements at `input`, the result to `output` (may be
/// equal; must not overlap otherwise). A value.
struct Segment {
  const void* input = nullptr;
  void* output = nullptr;
  std::size_t count = 0;
  /// Not 0: `input` and `output` are one address in memory that all ranks have allocated alike, for which
  /// NCCL has a faster way. The number is equal on all ranks. It grows with the address by the same number of
  /// bytes, so neighbours are known by it. Other collectives ignore it.
  std::uint64_t symmetric_address = 0;
  bool padded = false;  ///< with a symmetric address: the memory up to the next cache line is nobody's
};

/// The symmetric address of memory that all ranks have allocated alike, and that has no number of its own. It
/// has no neighbours.
inline constexpr std::uint64_t kSomeSymmetricAddress = std::numeric_limits<std::uint64_t>::max();

/// Fills a buffer that is reduced, and empties it. Elements are counted through; each comes once. *Engine
/// only.*
class Packing {
 public:
  virtual ~Packing() = default;
  /// Brings the inputs of elements [begin, begin + count).
  virtual void pack(std::size_t begin, std::size_t count) = 0;
  /// Takes the results of elements [begin, begin + count) away.
  virtual void unpack(std::size_t begin, std::size_t count) = 0;
};

/// Large buffers between the ranks of a group, in the order of the calls, which is the same on all ranks.
/// Calls block until this rank's output is complete and its input is no longer read by anybody; those on a
/// GPU may return before, and that is so when an Event is reached that their Stream marks after them. Lengths
/// and dtypes agree (negotiation saw to that); where memory lies may differ from rank to rank.
///
/// *Engine only*, except `allocate`, `progress` and `abort`. A failed or aborted call throws Error(aborted)
/// and leaves outputs undefined; every later call throws the same.
class Collective {
 public:
  virtual ~Collective() = default;

  /// Memory that these ranks exchange fastest; see Runtime::allocate. Thread-safe.
  virtual std::shared_ptr<std::byte> allocate(std::size_t bytes) = 0;

  /// Pieces smaller than this (bytes) that do not lie in memory from `allocate` are better packed into such
  /// memory first. Constant.
  [[nodiscard]] virtual std::size_t pack_below() const = 0;
  /// How many bytes of such memory are best reduced at a time where elements are cast into it before, and out
  /// of it after: as many as stay in a core's cache, where nothing but memory limits; else as many as there
  /// are. Constant, the same on all ranks.
  [[nodiscard]] virtual std::size_t best_round() const { return std::numeric_limits<std::size_t>::max(); }
  /// Whether `data` lies in memory from this rank's `allocate`.
  [[nodiscard]] virtual bool owns(const void* data) const = 0;

  /// Reduces each segment over the ranks, all under one pair of synchronisations.
  virtual void allreduce(std::span<const Segment> segments, const Reduction& reduction) = 0;
  /// The same for a segment whose input is its output, and which is packed before it is read, and unpacked
  /// when it is the result: here as a whole, elsewhere part by part, while others are on their way.
  virtual void allreduce_packed(const Segment& segment, const Reduction& reduction, Packing& packing) {
    packing.pack(0, segment.count);
    allreduce({&segment, 1}, reduction);
    packing.unpack(0, segment.count);
  }
  /// The `bytes` at `data` on rank `root` overwrite those of all others.
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  /// The same for several pieces of memory at once, as many and as long on all ranks.
  virtual void broadcast_all(std::span<const std::span<std::byte>> pieces, int root) {
    for (const auto piece : pieces) broadcast(piece.data(), piece.size(), root);
  }
  /// Rank r brings bytes[r] at its `input`; every `output` gets them all in rank order.
  virtual void allgather(const void* input, void* output, std::span<const std::size_t> bytes) = 0;
  /// bytes[from * ranks + to]: how many bytes rank `from` has for rank `to`. An input has them for all ranks,
  /// in rank order; an output gets them from all, in rank order.
  virtual void alltoall(const void* input, void* output, std::span<const std::size_t> bytes) = 0;
  /// Reduces the inputs, and leaves counts[r] elements of the result to rank r, one after the other in rank
  /// order. The output must not overlap the input.
  virtual void reducescatter(const void* input, void* output, std::span<const std::size_t> counts,
                             const Reduction& reduction) = 0;
  /// Returns when every rank has called it.
  virtual void barrier() = 0;

  /// A collective of some of these ranks, which are its ranks in this order; nothing on the others. All ranks
  /// call it, with the same `members`. It may be destroyed when its members have ended their last call, or
  /// all is over.
  virtual std::unique_ptr<Collective> split(std::span<const int> members) = 0;

  /// Grows when something of a call has moved; 0 where that cannot be said. Thread-safe.
  [[nodiscard]] virtual std::uint64_t progress() const noexcept { return 0; }

  /// Makes the current and all later calls throw Error with this status (the first one counts). Idempotent,
  /// does not block, from any thread.
  virtual void abort(const Status& why) noexcept = 0;
};

}  // namespace hora
