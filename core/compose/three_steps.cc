// SPDX-License-Identifier: Apache-2.0
#include "core/compose/three_steps.h"

#include <algorithm>
#include <utility>

namespace hora {
namespace {

constexpr std::size_t kSmallBytes = 64 * 1024;  // up to this size, messages cost more than bytes
// The size of a chunk, for each host that has a share of it. It is so long that the cost of a message does
// not matter. It is so short that the first and the last chunk, which nothing overlaps, take little time.
constexpr std::size_t kChunkBytes = 512 * 1024;
constexpr std::size_t kMostChunkBytes = 16 * 1024 * 1024;

}  // namespace

ThreeSteps::ThreeSteps(std::unique_ptr<Collective> world, std::unique_ptr<Collective> local, Hosts hosts)
    : world_(std::move(world)), local_(std::move(local)), hosts_(std::move(hosts)), most_(hosts_.least()) {
  for (std::size_t i = 0; i < most_; ++i) {
    std::vector<int> members;
    for (const auto& host : hosts_.ranks) members.push_back(host[i]);
    auto across = world_->split(members);
    if (across) across_ = std::move(across);
  }
}

std::uint64_t ThreeSteps::progress() const noexcept {
  return local_->progress() + world_->progress() + (across_ ? across_->progress() : 0);
}

void ThreeSteps::abort(const Status& why) noexcept {
  if (across_) across_->abort(why);
  world_->abort(why);
  local_->abort(why);
}

Cut ThreeSteps::cut(std::size_t total, std::size_t each) const {
  return cut(total, each, std::min(kChunkBytes * hosts_.ranks.size(), kMostChunkBytes));
}

Cut ThreeSteps::cut_blocks(std::size_t longest, std::size_t each) const {
  return cut(longest, each, std::min(kChunkBytes, kMostChunkBytes / hosts_.ranks.size()));
}

Cut ThreeSteps::cut(std::size_t total, std::size_t each, std::size_t chunk_bytes) const {
  const bool small = total * each <= kSmallBytes;
  return {total, each, std::max<std::size_t>(small ? total : chunk_bytes / each, 1), small ? 1 : most_};
}

std::vector<std::size_t> ThreeSteps::slices_here(const Cut& cut, std::size_t length, std::size_t unit) const {
  std::vector<std::size_t> slices;
  for (std::size_t i = 0; i < hosts_.here().size(); ++i) slices.push_back(cut.slice(length, i) * unit);
  return slices;
}

std::byte* ThreeSteps::room(std::size_t which, std::size_t bytes) {
  Room& room = rooms_[which];
  if (room.bytes < bytes) {
    room = {};
    room = {local_->allocate(bytes), bytes};
  }
  return room.memory.get();
}

}  // namespace hora
