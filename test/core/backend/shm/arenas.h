// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/arena.h"
#include "core/backend/shm/communicator.h"
#include "core/backend/shm/remote_access.h"
#include "core/backend/shm/rounds.h"
#include "core/device/fastest_copy.h"
#include "test/support/threads.h"

#include <functional>
#include <memory>
#include <vector>

namespace hora::shm {

inline constexpr std::size_t kTestRegion = std::size_t{64} << 20;

/// The arena as ranks that are threads have it: one mapping.
inline std::vector<std::shared_ptr<Arena>> make_arenas(int ranks, std::size_t region = kTestRegion) {
  const auto mapping =
      std::make_shared<const Mapping>(Arena::create_file(ranks, region), Arena::file_bytes(ranks, region));
  std::vector<std::shared_ptr<Arena>> arenas;
  for (int rank = 0; rank < ranks; ++rank) arenas.push_back(Arena::make(mapping, rank, ranks, region));
  return arenas;
}

/// The state of one rank that the ways of moving bytes (`Transfers`, `Broadcast`) use.
struct RankWays {
  Communicator communicator;
  Rounds rounds{communicator};
  RemoteAccess access;
  FastestCopy fastest_copy{};
};

/// Runs `body` on ranks that are threads, with private memory within reach or not.
inline void run_ranks_in_arenas(int ranks, bool access_private, const std::function<void(RankWays&)>& body) {
  const auto arenas = make_arenas(ranks);
  run_ranks(ranks, [&](int rank) {
    const Communicator communicator(arenas[static_cast<std::size_t>(rank)], rank, ranks);
    RankWays ways{.communicator = communicator,
                  .access = RemoteAccess(communicator, access_private ? make_thread_memory() : nullptr)};
    body(ways);
  });
}

}  // namespace hora::shm
