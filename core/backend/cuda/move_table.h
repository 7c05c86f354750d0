// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/kernels.h"
#include "core/device/stream.h"

#include <cstddef>
#include <cstdint>
#include <span>

namespace hora::cuda {

/// How much of a list of moves went into a table. A value.
struct Filled {
  std::size_t moves = 0;
  std::uint32_t tiles = 0;
};

/// Puts the first of `moves` into a table, as many as there is room for; sizes are of elements, in bytes. No
/// move is empty. The table's flag and factor are left alone. Instantiated for both tables of kernels.h.
template <std::size_t kBytes>
Filled fill(MoveTable<kBytes>& table, std::span<const Move> moves, std::uint32_t to_size,
            std::uint32_t from_size, std::uint32_t multiprocessors);

/// The same for elements that become blocks (`from_source`), or come of them.
template <std::size_t kBytes>
Filled fill(BlockTable<kBytes>& table, std::span<const BlockMove> moves, bool from_source,
            std::uint32_t multiprocessors);

}  // namespace hora::cuda
