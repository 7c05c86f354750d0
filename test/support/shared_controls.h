// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/arena.h"
#include "core/backend/shm/shared_control.h"
#include "test/support/tcp_ranks.h"

#include <memory>
#include <vector>

namespace hora::shm {

/// Control of ranks that are threads, with messages through shared memory: one per rank.
inline std::vector<std::unique_ptr<Control>> shared_controls(const std::vector<Config>& configs) {
  constexpr std::size_t kRegion = std::size_t{1} << 20;
  const auto ranks = static_cast<int>(configs.size());
  const auto mapping =
      std::make_shared<const Mapping>(Arena::create_file(ranks, kRegion), Arena::file_bytes(ranks, kRegion));
  std::vector<std::unique_ptr<Control>> controls;
  for (auto& world : connect_tcp_ranks(configs)) {
    const auto rank = static_cast<int>(controls.size());
    controls.push_back(make_shared_control(
        std::move(world.control),
        std::make_shared<const Communicator>(Arena::make(mapping, rank, ranks, kRegion), rank, ranks)));
  }
  return controls;
}

}  // namespace hora::shm
