// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/arena.h"
#include "core/backend/shm/peer_memory.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hora {

/// How one rank gets at the buffers of all: what lies in the arena it addresses itself, what is private to
/// another process it reads and writes through PeerMemory. Places that others named are checked. *Engine
/// only.*
class Reach {
 public:
  /// `peers` may be nullptr: then private memory of others is out of reach.
  Reach(std::shared_ptr<Arena> arena, int rank, int ranks, std::unique_ptr<PeerMemory> peers);

  /// How others reach this memory.
  [[nodiscard]] Place place(const void* data) const;
  [[nodiscard]] bool everything() const { return peers_ != nullptr; }

  /// The `bytes` at `begin` bytes after a place that `rank` named, or nullptr if they are private to another
  /// process. Throws Error(internal) if they are not in the arena though the rank says so.
  [[nodiscard]] std::byte* local(int rank, const Place& place, std::size_t begin, std::size_t bytes);

  // From and to any place. They throw what `local` throws and Error(aborted) if the rank cannot be reached.
  void read(int rank, const Place& place, std::size_t begin, void* to, std::size_t bytes);
  void write(int rank, const Place& place, std::size_t begin, const void* from, std::size_t bytes);

 private:
  void map_ahead(int rank, std::size_t offset, std::size_t bytes);

  std::shared_ptr<Arena> arena_;
  int rank_;
  std::unique_ptr<PeerMemory> peers_;

  /// Which parts of a rank's region this process has mapped.
  struct Mapped {
    std::vector<bool> granules;
    std::uint64_t given_back = 0;  // how often the owner had given memory back when that was noted
  };
  std::vector<Mapped> mapped_;  // by rank
};

}  // namespace hora
