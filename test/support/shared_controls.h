// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/shm/shared_control.h"
#include "test/core/backend/shm/arenas.h"
#include "test/support/tcp_ranks.h"

#include <memory>
#include <vector>

namespace hora::shm {

/// Control of ranks that are threads, with messages through shared memory: one per rank.
inline std::vector<std::unique_ptr<Control>> shared_controls(const std::vector<Config>& configs) {
  constexpr std::size_t kRegion = std::size_t{1} << 20;
  const auto ranks = static_cast<int>(configs.size());
  const auto arenas = make_arenas(ranks, kRegion);
  std::vector<std::unique_ptr<Control>> controls;
  for (auto& world : connect_tcp_ranks(configs)) {
    const auto rank = static_cast<int>(controls.size());
    controls.push_back(make_shared_control(
        std::move(world.control),
        std::make_shared<const Communicator>(arenas[static_cast<std::size_t>(rank)], rank, ranks)));
  }
  return controls;
}

}  // namespace hora::shm
