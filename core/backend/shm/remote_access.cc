// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/remote_access.h"

#include <hora/status.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hora::shm {
namespace {

constexpr std::size_t kGranule = 256 * 1024;  // of what is mapped ahead at a time

}  // namespace

RemoteAccess::RemoteAccess(Communicator communicator, std::shared_ptr<PeerMemory> peers)
    : communicator_(std::move(communicator)),
      peers_(std::move(peers)),
      mapped_(static_cast<std::size_t>(communicator_.size())) {}

Location RemoteAccess::locate(const void* data) const {
  if (!communicator_.arena().contains(data)) return {reinterpret_cast<std::uint64_t>(data), 0};
  return {static_cast<std::uint64_t>(static_cast<const std::byte*>(data) - communicator_.arena().base()), 1};
}

std::byte* RemoteAccess::local(int place, const Location& buffer, std::size_t begin, std::size_t bytes) {
  const Location named = buffer;  // looked at once: its owner may be out of its mind
  if (named.in_arena == 0)
    return place == communicator_.place() ? reinterpret_cast<std::byte*>(named.where) + begin : nullptr;
  if (named.where > communicator_.arena().size() || begin > communicator_.arena().size() - named.where ||
      bytes > communicator_.arena().size() - named.where - begin) {
    throw Error(Code::internal, fmt::format("rank {} names {} bytes at offset {} of an arena of {} bytes",
                                            communicator_.rank_at(place), begin + bytes, named.where,
                                            communicator_.arena().size()));
  }
  if (place != communicator_.place()) map_ahead(place, named.where + begin, bytes);
  return communicator_.arena().base() + named.where + begin;
}

/// The first time that this process touches memory of another rank, in bulk rather than by a page fault for
/// each 4 KiB.
void RemoteAccess::map_ahead(int place, std::size_t offset, std::size_t bytes) {
  Mapped& mapped = mapped_[static_cast<std::size_t>(place)];
  const std::uint64_t given_back =
      communicator_.arena().block(communicator_.rank_at(place)).given_back.load(std::memory_order_acquire);
  if (mapped.given_back != given_back) mapped = {{}, given_back};
  const std::size_t last = (offset + bytes) / kGranule;
  if (mapped.granules.size() <= last) mapped.granules.resize(last + 1);
  for (std::size_t granule = offset / kGranule; granule <= last; ++granule) {
    if (mapped.granules[granule]) continue;
    mapped.granules[granule] = true;
    const std::size_t from = std::max(offset, granule * kGranule);
    const std::size_t to = std::min(offset + bytes, (granule + 1) * kGranule);
    if (from < to) communicator_.arena().map_now(from, to - from);
  }
}

void RemoteAccess::read(int place, const Location& buffer, std::size_t begin, void* to, std::size_t bytes) {
  if (bytes == 0) return;
  if (const auto* from = local(place, buffer, begin, bytes)) {
    if (from != to) std::memcpy(to, from, bytes);
  } else {
    peers_->read(communicator_.rank_at(place), to, buffer.where + begin, bytes);
  }
}

void RemoteAccess::write(int place, const Location& buffer, std::size_t begin, const void* from,
                         std::size_t bytes) {
  if (bytes == 0) return;
  if (auto* to = local(place, buffer, begin, bytes)) {
    if (from != to) std::memcpy(to, from, bytes);
  } else {
    peers_->write(communicator_.rank_at(place), buffer.where + begin, from, bytes);
  }
}

}  // namespace hora::shm
