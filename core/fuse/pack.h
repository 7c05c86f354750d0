// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/base/clock.h"
#include "core/comm/lane.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace hora {

/// A stage of a call of a Packer, and its time. A value.
enum class Stage : std::uint8_t { pack, transfer, unpack };
inline constexpr int kStages = 3;
struct Span {
  Stage stage = Stage::transfer;
  TimePoint begin;
  TimePoint end;
};

/// Reduces tensors, or parts of them (*pieces*), over a lane. Copies them into one wire buffer, and casts
/// them, where that is needed or faster. The buffer is made at first use, in memory from the collective's
/// `allocate`.
///
///   wire dtype != dtype   every piece goes through the buffer, and is cast on the way in and out. The buffer
///                         is filled and reduced in rounds, which all ranks cut alike: the cut follows from
///                         counts and from limits that are equal on all ranks
///   equal, lane fuses     a piece goes through the buffer if it is small and has no symmetric address.
///                         All others are reduced in place; pieces whose symmetric addresses are neighbours
///                         become one segment
///   equal, else           a piece goes through the buffer if it is small and does not lie in memory from
///                         `allocate`, on this rank. Each piece stays a segment, so ranks may differ in that
///
/// Small means less than the collective's `pack_below`. In the buffer each piece begins a cache line. The
/// padding between pieces is reduced with them, and its values mean nothing. *Engine only.*
class Packer {
 public:
  /// `threshold`: bytes that travel together at the most, equal on all ranks.
  Packer(Lane& lane, std::size_t threshold) : lane_(lane), threshold_(threshold) {}
  /// From now on, on all ranks, at the same point of what they do.
  void fuse_up_to(std::size_t threshold) { threshold_ = threshold; }

  /// The pieces have `dtype`; `reduction.dtype` is that of the wire. `flag`: null, or one of the lane's
  /// stream, which is set if any element of the outputs is infinite or not a number.
  void allreduce(std::span<const Segment> pieces, DType dtype, const Reduction& reduction,
                 std::uint32_t* flag = nullptr);
  /// The same for one piece whose output has `own` elements, this rank's of counts; see Collective.
  void reducescatter(const Segment& piece, std::span<const std::size_t> counts, std::size_t own, DType dtype,
                     const Reduction& reduction);

  /// Sets the flag, unless that is null, if any element of the outputs is infinite or not a number.
  void look_at(std::span<const Segment> pieces, DType dtype, std::uint32_t* flag);

  /// The most bytes that travel at a time, where they visit the buffer.
  [[nodiscard]] std::size_t round_bytes() const;
  /// The buffer, for another's use: so many bytes, aligned to 64, until the next call. If it is made anew, it
  /// has at least so many rounds.
  std::byte* buffer(std::size_t bytes, std::size_t rounds = 1);

  /// Buffers that were too small, and that work under way on the lane may still use.
  [[nodiscard]] std::vector<std::shared_ptr<std::byte>> take_outgrown() {
    return std::exchange(outgrown_, {});
  }

  /// Whether calls note what they do, which takes looks at the clock; not at first.
  void note_spans(bool on) { notes_spans_ = on; }
  /// The stages of the last call; empty if it did not note them.
  [[nodiscard]] const std::vector<Span>& spans() const { return spans_; }

 private:
  class Round;

  void begin();
  /// Ends a stage, which began when the one before it ended.
  void end(Stage stage);
  void reduce_where_it_lies(std::span<const Segment> pieces, const Reduction& reduction, std::uint32_t* flag);
  void reduce_fused(std::span<const Segment> pieces, const Reduction& reduction, std::uint32_t* flag);
  void reduce_compressed(std::span<const Segment> pieces, DType dtype, Reduction reduction,
                         std::uint32_t* flag);
  /// Reduces pieces that fit into the buffer `wire` at once.
  void reduce_round(std::span<const Segment> round, std::byte* wire, DType dtype, const Reduction& reduction,
                    double factor, std::uint32_t* flag);

  Lane& lane_;
  std::size_t threshold_;
  std::shared_ptr<std::byte> buffer_;
  std::vector<std::shared_ptr<std::byte>> outgrown_;
  std::size_t buffer_bytes_ = 0;
  bool notes_spans_ = false;
  std::vector<Span> spans_;
  TimePoint stage_began_;
};

}  // namespace hora
