// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/move_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace hora::cuda {
namespace {

// Places that are never looked at.
void* place(std::uintptr_t address) { return reinterpret_cast<void*>(address); }

TEST(MoveTable, HoldsMovesWithTheirTiles) {
  const auto table = std::make_unique<SmallMoves>();
  const std::vector<Move> moves{{place(0x1000), place(0x2000), 1},
                                {place(0x100000), place(0x800000), 1 << 12}};
  const Filled filled = fill(*table, moves, 4, 4, 132);
  EXPECT_EQ(filled.moves, 2U);
  EXPECT_EQ(filled.tiles, 5U) << "1 for what is small, 4 of 256 units of 4 elements";
  EXPECT_EQ(table->moves, 2U);
  EXPECT_EQ(table->tile_units, kThreads);
  EXPECT_EQ(table->first_tile[0], 0U);
  EXPECT_EQ(table->first_tile[1], 1U);
  EXPECT_EQ(table->to[1], 0x100000U);
  EXPECT_EQ(table->from[1], 0x800000U);
  EXPECT_EQ(table->count[1], 1U << 12);
}

TEST(MoveTable, MakesTilesLargeWhereThereIsEnoughForAllMultiprocessors) {
  const auto table = std::make_unique<SmallMoves>();
  const std::vector<Move> moves{{place(0x100000), place(0x80000000), 1 << 24}};
  EXPECT_EQ(fill(*table, moves, 4, 4, 132).tiles, 4096U) << "64 MiB in tiles of 16 KiB";
  EXPECT_EQ(table->tile_units, kThreads * kDepth);
}

TEST(MoveTable, HoldsElementsAndTheirBlocks) {
  const auto table = std::make_unique<SmallBlocks>();
  const auto* source = static_cast<const void*>(place(0x2000));
  auto* blocks = static_cast<std::byte*>(place(0x1000));
  const std::vector<BlockMove> moves(200, BlockMove{{blocks, blocks + 64}, source, place(0x3000), 1057});
  const Filled filled = fill(*table, moves, true, 132);
  EXPECT_EQ(filled.moves, SmallBlocks::kMost);
  EXPECT_EQ(filled.tiles, 2 * SmallBlocks::kMost) << "34 blocks of 8 units, which take 256 and 16";
  EXPECT_EQ(table->first_tile[3], 6U);
  EXPECT_EQ(table->elements[1], 0x1000U);
  EXPECT_EQ(table->scales[1], 0x1040U);
  EXPECT_EQ(table->plain[1], 0x2000U);
  fill(*table, moves, false, 132);
  EXPECT_EQ(table->plain[1], 0x3000U);
}

TEST(MoveTable, TakesAsManyAsItHasRoomFor) {
  const std::vector<Move> moves(5000, Move{place(0x1000), place(0x2000), 1});
  const auto small = std::make_unique<SmallMoves>();
  EXPECT_EQ(fill(*small, moves, 4, 4, 132).moves, 145U);
  const auto large = std::make_unique<LargeMoves>();
  EXPECT_EQ(fill(*large, moves, 4, 4, 132).moves, 1169U);
}

TEST(MoveTable, TakesNoMoreTilesThanALaunchHasBlocks) {
  const auto table = std::make_unique<SmallMoves>();
  const std::uint64_t bytes = std::uint64_t{1} << 44;
  const std::vector<Move> moves(3, Move{place(0x10), place(0x20), bytes});
  const Filled filled = fill(*table, moves, 1, 1, 132);
  EXPECT_EQ(filled.moves, 1U);
  EXPECT_EQ(filled.tiles, 1U << 30);
}

}  // namespace
}  // namespace hora::cuda
