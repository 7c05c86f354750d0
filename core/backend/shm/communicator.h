// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/arena.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace hora::shm {

/// The ranks that meet in one collective, and where in the arena each of them sits. Within a communicator a
/// rank is called by its place. A value.
class Communicator {
 public:
  /// All ranks of the arena, on the rank blocks at its head; their places are their ranks.
  Communicator(std::shared_ptr<Arena> arena, int rank, int ranks);
  /// The ranks `members` of the arena, in the order of their places, on rank blocks at these offsets
  /// (Arena::offset_of); `place` is this one's, and `own` its block. Throws Error(internal) if no rank block
  /// can be there.
  Communicator(std::shared_ptr<Arena> arena, int place, std::span<const int> members,
               std::span<const std::uint64_t> offsets, std::shared_ptr<RankBlock> own = nullptr);

  [[nodiscard]] RankBlock& block(int place) const { return *blocks_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] RankBlock& own_block() const { return block(place_); }
  /// The one at the head of the arena, on which this rank sits among all.
  [[nodiscard]] RankBlock& first_block() const { return arena_->block(rank_at(place_)); }
  [[nodiscard]] int place() const { return place_; }
  [[nodiscard]] int size() const { return static_cast<int>(blocks_.size()); }
  /// The rank of the arena at a place.
  [[nodiscard]] int rank_at(int place) const { return ranks_[static_cast<std::size_t>(place)]; }
  [[nodiscard]] Arena& arena() const { return *arena_; }
  [[nodiscard]] const std::shared_ptr<Arena>& shared_arena() const { return arena_; }

 private:
  std::shared_ptr<Arena> arena_;
  std::shared_ptr<RankBlock> own_;  // null: at the head of the arena
  int place_;
  std::vector<RankBlock*> blocks_;  // by place
  std::vector<int> ranks_;          // by place
};

}  // namespace hora::shm
