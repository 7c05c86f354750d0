// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/remote_access.h"
#include "core/backend/shm/rounds.h"
#include "core/device/fastest_copy.h"

#include <cstddef>
#include <span>

namespace hora::shm {

/// Bytes that this rank takes from what another one, or itself, offers. A value.
struct Take {
  int from = 0;           ///< a place
  std::size_t begin = 0;  ///< in what that rank offers
  std::size_t bytes = 0;
  std::byte* to = nullptr;
};

/// Moves bytes as they are: every rank offers a buffer, and takes what it wants of the others'. Small ones
/// through the inline buffers, what is in reach directly, the rest through the stages. *Engine only.*
class Transfers {
 public:
  Transfers(Communicator communicator, Rounds& rounds, RemoteAccess& access, FastestCopy& fastest_copy)
      : communicator_(std::move(communicator)),
        rounds_(rounds),
        access_(access),
        fastest_copy_(fastest_copy) {}

  /// The parameters on which the ranks agree: the call, the bytes that are offered in all, and the most that
  /// one rank offers.
  struct Agreed {
    Call call = Call::allgather;
    std::size_t total = 0;
    std::size_t most = 0;
    std::uint64_t detail = 0;
  };
  void run(const Agreed& agreed, const void* offer, std::size_t bytes, std::span<const Take> takes);

 private:
  void run_staged(std::size_t most, const void* offer, std::size_t bytes, std::span<const Take> takes);

  Communicator communicator_;
  Rounds& rounds_;
  RemoteAccess& access_;
  FastestCopy& fastest_copy_;
};

}  // namespace hora::shm
