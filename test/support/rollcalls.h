// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/comm/rollcall.h"

#include <memory>
#include <vector>

namespace hora {

/// A roll call of ranks of this process, by rank.
inline std::vector<std::unique_ptr<Rollcall>> make_rollcalls(int size) {
  const auto seats = std::make_shared<std::vector<RollcallSeat>>(static_cast<std::size_t>(size));
  std::vector<std::unique_ptr<Rollcall>> calls;
  for (int rank = 0; rank < size; ++rank) {
    std::vector<RollcallSeat*> all;
    for (auto& seat : *seats) all.push_back(&seat);
    calls.push_back(std::make_unique<Rollcall>(std::move(all), rank, seats));
  }
  return calls;
}

}  // namespace hora
