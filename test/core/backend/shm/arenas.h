// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/arena.h"

#include <memory>
#include <vector>

namespace hora {

inline constexpr std::size_t kTestRegion = std::size_t{64} << 20;

/// The arena as ranks that are threads have it: one mapping.
inline std::vector<std::shared_ptr<Arena>> make_arenas(int ranks, std::size_t region = kTestRegion) {
  const auto mapping =
      std::make_shared<const Mapping>(Arena::create_file(ranks, region), Arena::file_bytes(ranks, region));
  std::vector<std::shared_ptr<Arena>> arenas;
  for (int rank = 0; rank < ranks; ++rank) arenas.push_back(Arena::make(mapping, rank, ranks, region));
  return arenas;
}

}  // namespace hora
