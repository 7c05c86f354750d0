// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/move_table.h"

#include <algorithm>
#include <limits>

namespace hora::cuda {
namespace {

constexpr std::uint64_t kMostTiles = std::numeric_limits<std::int32_t>::max();  // blocks of a launch

std::uint64_t number_of(const void* place) { return reinterpret_cast<std::uintptr_t>(place); }

Walk walk_of_move(const Move& move, std::uint32_t to_size, std::uint32_t from_size) {
  return walk_of(number_of(move.to), number_of(move.from), move.count, to_size, from_size);
}

/// `walk` of a move is how it is gone through; `put` writes its addresses into an entry.
template <typename Table, typename AnyMove, typename WalkOf, typename Put>
Filled fill_with(Table& table, std::span<const AnyMove> moves, std::uint32_t multiprocessors,
                 const WalkOf& walk, const Put& put) {
  moves = moves.first(std::min<std::size_t>(moves.size(), Table::kMost));
  std::uint64_t units = 0;
  for (const auto& move : moves) units += walk(move).units;
  table.tile_units = tile_units_for(units, multiprocessors);
  std::uint64_t tiles = 0;
  std::uint32_t taken = 0;
  for (const auto& move : moves) {
    const std::uint64_t more = tiles_of(walk(move), table.tile_units);
    if (tiles + more > kMostTiles) break;
    put(taken, move);
    table.count[taken] = move.count;
    table.first_tile[taken] = static_cast<std::uint32_t>(tiles);
    tiles += more;
    ++taken;
  }
  table.moves = taken;
  return {taken, static_cast<std::uint32_t>(tiles)};
}

}  // namespace

template <std::size_t kBytes>
Filled fill(MoveTable<kBytes>& table, std::span<const Move> moves, std::uint32_t to_size,
            std::uint32_t from_size, std::uint32_t multiprocessors) {
  return fill_with(
      table, moves, multiprocessors, [=](const Move& move) { return walk_of_move(move, to_size, from_size); },
      [&](std::uint32_t i, const Move& move) {
        table.to[i] = number_of(move.to);
        table.from[i] = number_of(move.from);
      });
}

template <std::size_t kBytes>
Filled fill(BlockTable<kBytes>& table, std::span<const BlockMove> moves, bool from_source,
            std::uint32_t multiprocessors) {
  return fill_with(
      table, moves, multiprocessors, [](const BlockMove& move) { return block_walk(move.count); },
      [&](std::uint32_t i, const BlockMove& move) {
        table.elements[i] = number_of(move.blocks.elements);
        table.scales[i] = number_of(move.blocks.scales);
        table.plain[i] = number_of(from_source ? move.source : move.target);
      });
}

template Filled fill(SmallMoves&, std::span<const Move>, std::uint32_t, std::uint32_t, std::uint32_t);
template Filled fill(LargeMoves&, std::span<const Move>, std::uint32_t, std::uint32_t, std::uint32_t);
template Filled fill(SmallBlocks&, std::span<const BlockMove>, bool, std::uint32_t);
template Filled fill(LargeBlocks&, std::span<const BlockMove>, bool, std::uint32_t);

}  // namespace hora::cuda
