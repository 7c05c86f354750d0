// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/allreduce.h"

#include "core/compose/pieces.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace hora::shm {
namespace {

// Inline buffers are used up to these sizes. They need one synchronisation instead of two, but a copy into
// cache lines that other ranks have read. The first size is for buffers in the arena, and the second for
// private ones. If a synchronisation is expensive, the limit is a whole inline buffer.
constexpr std::size_t kOneShotBytes = 512;
constexpr std::size_t kPrivateOneShotBytes = 2048;
// From this size on, more phases may be faster, because less data travels between caches and sockets.
constexpr std::size_t kByLevelsBytes = 256 * 1024;

/// Copies the inputs of all segments, one after the other.
void gather(std::byte* to, std::span<const Segment> segments, std::size_t each) {
  for (const auto& segment : segments) {
    if (segment.count > 0) std::memcpy(to, segment.input, segment.count * each);
    to += segment.count * each;
  }
}

}  // namespace

Allreduce::Allreduce(const Communicator& communicator, Rounds& rounds, RemoteAccess& access, Sums& sums,
                     StagedSums& staged_sums, std::optional<bool> direct, std::optional<bool> by_levels)
    : communicator_(communicator),
      rounds_(rounds),
      access_(access),
      sums_(sums),
      staged_sums_(staged_sums),
      write_all_(communicator, rounds, access, sums),
      write_by_levels_(communicator, rounds, access),
      private_way_(32 * 1024, direct),
      level_way_(kByLevelsBytes, by_levels) {}

void Allreduce::run(std::span<const Segment> segments, const Reduction& reduction) {
  const std::size_t bytes = total_count(segments) * size_of(reduction.dtype);
  const Mailbox& own = open(segments, reduction, bytes);
  if (own.is_inline != 0)
    gather(rounds_.inline_buffer(communicator_.place()), segments, size_of(reduction.dtype));
  rounds_.meet();
  const int ranks = ranks_in_slots();
  if (ranks == communicator_.size()) return reduce_in_slots(segments, reduction);
  if (ranks > 0) return reduce_mixed(segments, reduction);
  if (rounds_.all_in_arena(segments.size(), {&Mailbox::inputs, &Mailbox::outputs}))
    return reduce_in_arena(segments, reduction, bytes);
  reduce_in_private(segments, reduction, bytes);
}

Mailbox& Allreduce::open(std::span<const Segment> segments, const Reduction& reduction, std::size_t bytes) {
  const auto detail = segments.size() << 16 | static_cast<std::uint64_t>(reduction.dtype) << 8 |
                      static_cast<std::uint64_t>(reduction.op);
  Mailbox& own = rounds_.open(Call::allreduce, bytes, detail);
  bool in_arena = true;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    own.inputs[i] = access_.locate(segments[i].input);
    own.outputs[i] = access_.locate(segments[i].output);
    in_arena = in_arena && own.inputs[i].in_arena != 0 && own.outputs[i].in_arena != 0;
  }
  own.direct = private_way_.way(bytes);
  own.by_levels = level_way_.way(bytes);
  own.is_inline = bytes <= most_inline(in_arena) ? 1 : 0;
  return own;
}

int Allreduce::ranks_in_slots() const {
  int ranks = 0;
  for (int place = 0; place < communicator_.size(); ++place)
    ranks += rounds_.mailbox(place).is_inline != 0 ? 1 : 0;
  return ranks;
}

void Allreduce::reduce_in_arena(std::span<const Segment> segments, const Reduction& reduction,
                                std::size_t bytes) {
  if (bytes < kByLevelsBytes || !sums_.by_levels(reduction)) {
    write_all_.run(segments, reduction);
    return rounds_.phase();
  }
  const auto start = Clock::now();
  const bool by_levels = rounds_.mailbox(0).by_levels != 0;
  if (by_levels) {
    write_by_levels_.run(sums_.levels(), segments, reduction);
  } else {
    write_all_.run(segments, reduction);
  }
  rounds_.phase();
  level_way_.note(by_levels ? 1 : 0, bytes, Clock::now() - start);
}

void Allreduce::reduce_in_private(std::span<const Segment> segments, const Reduction& reduction,
                                  std::size_t bytes) {
  if (!access_.everything()) return staged_sums_.allreduce(segments, reduction);
  const auto start = Clock::now();
  const bool direct = rounds_.mailbox(0).direct != 0;
  if (direct) {
    write_all_.run(segments, reduction);
    rounds_.phase();
  } else {
    staged_sums_.allreduce(segments, reduction);
  }
  private_way_.note(direct ? 1 : 0, bytes, Clock::now() - start);
}

std::size_t Allreduce::most_inline(bool in_arena) const {
  if (rounds_.crowded()) return kInlineBytes;
  return in_arena ? kOneShotBytes : kPrivateOneShotBytes;
}

void Allreduce::reduce_in_slots(std::span<const Segment> segments, const Reduction& reduction) {
  inputs_.resize(static_cast<std::size_t>(communicator_.size()));
  std::size_t begin = 0;
  for (const auto& segment : segments) {
    for (int place = 0; place < communicator_.size(); ++place)
      inputs_[static_cast<std::size_t>(place)] = rounds_.inline_buffer(place) + begin;
    sums_.reduce(inputs_, {&segment.output, 1}, segment.count, reduction);
    begin += segment.count * size_of(reduction.dtype);
  }
}

/// Reduces few bytes that are inline on some ranks and in the arena on others. Each rank reduces all of them.
/// It keeps the result aside until no rank reads the inputs any more, because an output may be an input.
void Allreduce::reduce_mixed(std::span<const Segment> segments, const Reduction& reduction) {
  const std::size_t each = size_of(reduction.dtype);
  alignas(64) std::array<std::byte, kInlineBytes> results;
  inputs_.resize(static_cast<std::size_t>(communicator_.size()));
  std::size_t begin = 0;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const std::size_t bytes = segments[i].count * each;
    for (int place = 0; place < communicator_.size(); ++place) {
      const Mailbox& box = rounds_.mailbox(place);
      inputs_[static_cast<std::size_t>(place)] = box.is_inline != 0
                                                     ? rounds_.inline_buffer(place) + begin
                                                     : access_.local(place, box.inputs[i], 0, bytes);
    }
    void* result = results.data() + begin;
    sums_.reduce(inputs_, {&result, 1}, segments[i].count, reduction);
    begin += bytes;
  }
  rounds_.phase();
  const std::byte* next = results.data();
  for (const auto& segment : segments) {
    if (segment.count > 0) std::memcpy(segment.output, next, segment.count * each);
    next += segment.count * each;
  }
}

}  // namespace hora::shm
