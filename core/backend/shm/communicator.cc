// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/communicator.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <utility>

namespace hora::shm {

Communicator::Communicator(std::shared_ptr<Arena> arena, int rank, int ranks)
    : arena_(std::move(arena)), place_(rank) {
  arena_->map_blocks(ranks);
  for (int other = 0; other < ranks; ++other) {
    blocks_.push_back(&arena_->block(other));
    ranks_.push_back(other);
  }
}

Communicator::Communicator(std::shared_ptr<Arena> arena, int place, std::span<const int> members,
                           std::span<const std::uint64_t> offsets, std::shared_ptr<RankBlock> own)
    : arena_(std::move(arena)), own_(std::move(own)), place_(place), ranks_(members.begin(), members.end()) {
  for (const auto offset : offsets) {
    if (offset % alignof(RankBlock) != 0 || offset > arena_->size() ||
        arena_->size() - offset < sizeof(RankBlock)) {
      throw Error(Code::internal, fmt::format("no rank block can be at offset {} of an arena of {} bytes",
                                              offset, arena_->size()));
    }
    arena_->map_now(offset, sizeof(RankBlock));
    blocks_.push_back(reinterpret_cast<RankBlock*>(arena_->base() + offset));
  }
}

}  // namespace hora::shm
