// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/broadcast.h"

#include "core/backend/shm/write_guard.h"
#include "core/compose/pieces.h"

#include <algorithm>

namespace hora::shm {
namespace {

// The bytes that a rank brings to all before it brings any others. They stay in the second-level cache, and a
// rank that leaves need not wait long.
constexpr std::size_t kBroughtBytes = 256 * 1024;
constexpr std::size_t kHalfStage = kStageBytes / 2;

}  // namespace

void Broadcast::run(std::span<const std::span<std::byte>> pieces, int root) {
  pieces_.clear();
  for (const auto piece : pieces) pieces_.push_back({piece.data(), piece.data(), piece.size()});
  total_ = total_count(pieces_);
  open(root);
  if (total_ <= kInlineBytes) return through_inline_buffer(root);
  rounds_.meet();
  if (!in_reach()) return through_stage(root);
  const std::size_t shared = share_begin(total_, 1, communicator_.size() - 1, communicator_.size());
  if (communicator_.place() == root) {
    bring(shared);
  } else {
    take(root, shared);
  }
  rounds_.phase();
}

void Broadcast::open(int root) {
  const std::uint64_t detail = pieces_.size() << 32 | static_cast<std::uint64_t>(root);
  Mailbox& own = rounds_.open(Call::broadcast, total_, detail);
  for (std::size_t i = 0; i < pieces_.size(); ++i) own.inputs[i] = access_.locate(pieces_[i].input);
}

bool Broadcast::in_reach() const {
  return access_.everything() || rounds_.all_in_arena(pieces_.size(), {&Mailbox::inputs});
}

void Broadcast::through_inline_buffer(int root) {
  if (communicator_.place() == root) fill(rounds_.inline_buffer(root), 0, total_);
  rounds_.meet();
  if (communicator_.place() != root) empty(rounds_.inline_buffer(root), 0, total_);
}

/// All bytes before `end`.
void Broadcast::take(int root, std::size_t end) {
  const auto& theirs = rounds_.mailbox(root).inputs;
  for_each_range(pieces_, 0, end, [&](const SegmentRange& range) {
    auto* to = static_cast<std::byte*>(pieces_[range.segment].output) + range.begin;
    access_.read(root, theirs[range.segment], range.begin, to, range.count);
  });
}

/// To every other rank all bytes from `begin` on.
void Broadcast::bring(std::size_t begin) {
  for_each_range(pieces_, begin, total_, [&](const SegmentRange& range) {
    for (std::size_t done = 0; done < range.count; done += kBroughtBytes) {
      const std::size_t bytes = std::min(kBroughtBytes, range.count - done);
      bring(pieces_[range.segment], range.segment, range.begin + done, bytes);
    }
  });
}

void Broadcast::bring(const Segment& piece, std::size_t index, std::size_t begin, std::size_t bytes) {
  const WriteGuard guard(communicator_);
  if (!guard.allowed()) return;
  const auto* from = static_cast<const std::byte*>(piece.input) + begin;
  for (int place = 0; place < communicator_.size(); ++place) {
    if (place != communicator_.place())
      access_.write(place, rounds_.mailbox(place).inputs[index], begin, from, bytes);
  }
}

/// When phase k is reached the root has filled a half for the k-th time, and the others have emptied the one
/// before: so it may be filled again.
void Broadcast::through_stage(int root) {
  std::size_t half = 0;
  for (std::size_t begin = 0; begin < total_; begin += kHalfStage, half = kHalfStage - half) {
    const std::size_t end = std::min(begin + kHalfStage, total_);
    std::byte* stage = rounds_.stage(root) + half;
    if (communicator_.place() == root) fill(stage, begin, end);
    rounds_.phase();
    if (communicator_.place() != root) empty(stage, begin, end);
  }
  rounds_.phase();
}

void Broadcast::fill(std::byte* to, std::size_t begin, std::size_t end) {
  gather_inputs(to, pieces_, 1, begin, end, [&](void* target, const void* from, std::size_t bytes) {
    fastest_copy_.copy(target, from, bytes);
  });
}

void Broadcast::empty(const std::byte* from, std::size_t begin, std::size_t end) {
  scatter_to_outputs(from, pieces_, 1, begin, end);
}

}  // namespace hora::shm
