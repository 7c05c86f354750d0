// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/remote_access.h"
#include "core/backend/shm/rounds.h"
#include "core/comm/collective.h"
#include "core/device/fastest_copy.h"

#include <cstddef>
#include <span>
#include <vector>

namespace hora::shm {

/// Brings pieces of memory, as they are on one rank, to all others.
///
///  - Few bytes go through that rank's inline buffer.
///  - Where all memory is in reach, they are copied straight to where they belong, and every rank copies as
///    much as every other one: a receiver takes all but the last share of the bytes, and the root brings
///    that to each.
///  - Else they go through the root's stage, of which the root fills one half while the others empty the
///    other.
///
/// *Engine only.*
class Broadcast {
 public:
  Broadcast(Communicator communicator, Rounds& rounds, RemoteAccess& access, FastestCopy& fastest_copy)
      : communicator_(std::move(communicator)),
        rounds_(rounds),
        access_(access),
        fastest_copy_(fastest_copy) {}

  /// At most kLocations pieces, as long on all ranks.
  void run(std::span<const std::span<std::byte>> pieces, int root);

 private:
  void open(int root);
  [[nodiscard]] bool in_reach() const;
  void through_inline_buffer(int root);
  void take(int root, std::size_t end);
  void bring(std::size_t begin);
  void bring(const Segment& piece, std::size_t index, std::size_t begin, std::size_t bytes);
  void through_stage(int root);
  void fill(std::byte* to, std::size_t begin, std::size_t end);
  void empty(const std::byte* from, std::size_t begin, std::size_t end);

  Communicator communicator_;
  Rounds& rounds_;
  RemoteAccess& access_;
  FastestCopy& fastest_copy_;
  // Of the call at hand.
  std::vector<Segment> pieces_;  // counted in bytes
  std::size_t total_ = 0;
};

}  // namespace hora::shm
