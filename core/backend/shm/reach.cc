// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/reach.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hora {
namespace {

constexpr std::size_t kGranule = 256 * 1024;  // of what is mapped ahead at a time

}  // namespace

Reach::Reach(std::shared_ptr<Arena> arena, int rank, int ranks, std::unique_ptr<PeerMemory> peers)
    : arena_(std::move(arena)),
      rank_(rank),
      peers_(std::move(peers)),
      mapped_(static_cast<std::size_t>(ranks)) {}

Place Reach::place(const void* data) const {
  if (!arena_->contains(data)) return {reinterpret_cast<std::uint64_t>(data), 0};
  return {static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - arena_->base()), 1};
}

std::byte* Reach::local(int rank, const Place& place, std::size_t begin, std::size_t bytes) {
  const Place named = place;  // looked at once: its owner may be out of its mind
  if (named.in_arena == 0) return rank == rank_ ? reinterpret_cast<std::byte*>(named.where) + begin : nullptr;
  if (named.where > arena_->size() || begin > arena_->size() - named.where ||
      bytes > arena_->size() - named.where - begin) {
    throw Error(Code::internal, fmt::format("rank {} names {} bytes at offset {} of an arena of {} bytes",
                                            rank, begin + bytes, named.where, arena_->size()));
  }
  if (rank != rank_) map_ahead(rank, named.where + begin, bytes);
  return arena_->base() + named.where + begin;
}

/// The first time that this process touches memory of another rank, in bulk rather than by a page fault for
/// each 4 KiB.
void Reach::map_ahead(int rank, std::size_t offset, std::size_t bytes) {
  Mapped& mapped = mapped_[static_cast<std::size_t>(rank)];
  const std::uint64_t given_back = arena_->seat(rank).given_back.load(std::memory_order_acquire);
  if (mapped.given_back != given_back) mapped = {{}, given_back};
  const std::size_t last = (offset + bytes) / kGranule;
  if (mapped.granules.size() <= last) mapped.granules.resize(last + 1);
  for (std::size_t granule = offset / kGranule; granule <= last; ++granule) {
    if (mapped.granules[granule]) continue;
    mapped.granules[granule] = true;
    const std::size_t from = std::max(offset, granule * kGranule);
    const std::size_t to = std::min(offset + bytes, (granule + 1) * kGranule);
    if (from < to) arena_->map_now(from, to - from);
  }
}

void Reach::read(int rank, const Place& place, std::size_t begin, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  if (const auto* from = local(rank, place, begin, bytes)) {
    if (from != to) std::memcpy(to, from, bytes);
  } else {
    peers_->read(rank, to, place.where + begin, bytes);
  }
}

void Reach::write(int rank, const Place& place, std::size_t begin, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (auto* to = local(rank, place, begin, bytes)) {
    if (from != to) std::memcpy(to, from, bytes);
  } else {
    peers_->write(rank, place.where + begin, from, bytes);
  }
}

}  // namespace hora
