// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/communicator.h"
#include "core/backend/shm/peer_memory.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hora::shm {

/// How one rank gets at the buffers of all: what lies in the arena it addresses itself, what is private to
/// another process it reads and writes through PeerMemory. Places that others named are checked. *Engine
/// only.*
class RemoteAccess {
 public:
  /// `peers` may be nullptr: then private memory of others is out of reach.
  RemoteAccess(Communicator communicator, std::shared_ptr<PeerMemory> peers);

  /// How others reach this memory.
  [[nodiscard]] Location locate(const void* data) const;
  [[nodiscard]] bool everything() const { return peers_ != nullptr; }
  [[nodiscard]] const std::shared_ptr<PeerMemory>& peers() const { return peers_; }

  /// The `bytes` at `begin` bytes after a buffer that the rank at `place` named, or nullptr if they are
  /// private to another process. Throws Error(internal) if they are not in the arena though the rank says so.
  [[nodiscard]] std::byte* local(int place, const Location& buffer, std::size_t begin, std::size_t bytes);

  // From and to any place. They throw what `local` throws and Error(aborted) if the rank cannot be reached.
  void read(int place, const Location& buffer, std::size_t begin, void* to, std::size_t bytes);
  void write(int place, const Location& buffer, std::size_t begin, const void* from, std::size_t bytes);

 private:
  void map_ahead(int place, std::size_t offset, std::size_t bytes);

  Communicator communicator_;
  std::shared_ptr<PeerMemory> peers_;

  /// The parts of a rank's region that this process has mapped.
  struct Mapped {
    std::vector<bool> granules;
    std::uint64_t given_back = 0;  // how often the owner had given memory back when that was noted
  };
  std::vector<Mapped> mapped_;  // by place
};

}  // namespace hora::shm
