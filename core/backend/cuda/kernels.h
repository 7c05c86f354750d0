// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/backend/cuda/walk.h"

#include <cstddef>
#include <cstdint>

// The parameters of the kernels, by value. kernels.cu has the kernels:
//   hora_copy, hora_copy_large                         MoveTable: bytes as they are
//   hora_move_<to>_<from>, hora_move_<to>_<from>_large MoveTable: floats f16, bf16, f32, f64
//   hora_sum_<dtype>, hora_sum_<dtype>_large           SumTable: f16, bf16, f32
//   hora_quantize_<format>_<from>, ..._large           BlockTable: block-scaled floats e4m3, e5m2
//   hora_dequantize_<to>_<format>, ..._large           BlockTable
//   hora_sum_<format>, hora_sum_<format>_large         BlockSumTable
// "large" ones take as many parameters as newer drivers allow. A block has kThreads threads, and takes the
// tile of its number.

namespace hora::cuda {

inline constexpr std::size_t kParameterBytes = 4096;
inline constexpr std::size_t kLargeParameterBytes = 32764;
inline constexpr int kLargeParametersSince = 12010;  ///< of the driver

/// Moves, each with its tiles; in bytes at most kBytes.
template <std::size_t kBytes>
struct MoveTable {
  static constexpr std::uint32_t kMost = (kBytes - 24) / 28;

  std::uint32_t* flag;  ///< null: results are not looked at
  double factor;        ///< 1: not multiplied
  std::uint32_t moves;
  std::uint32_t tile_units;  ///< units of a tile; a multiple of kThreads
  std::uint64_t to[kMost];   ///< 0: only looked at
  std::uint64_t from[kMost];
  std::uint64_t count[kMost];
  std::uint32_t first_tile[kMost];
};

/// Arrays that are added up; in bytes at most kBytes.
template <std::size_t kBytes>
struct SumTable {
  static constexpr std::uint32_t kMost = (kBytes - 32) / 8;

  std::uint64_t to;
  std::uint64_t count;
  double factor;
  std::uint32_t sources;
  /// Elements of a unit: 16 bytes if all arrays are aligned to that, else one.
  std::uint32_t unit;
  std::uint64_t from[kMost];
};

/// Elements and the blocks that they become or come of, each with its tiles; in bytes at most kBytes.
template <std::size_t kBytes>
struct BlockTable {
  static constexpr std::uint32_t kMost = (kBytes - 24) / 36;

  std::uint32_t* flag;  ///< null: results are not looked at
  double factor;        ///< 1: not multiplied
  std::uint32_t moves;
  std::uint32_t tile_units;  ///< units of a tile: kThreads, or kDepth times that
  std::uint64_t elements[kMost];
  std::uint64_t scales[kMost];
  std::uint64_t plain[kMost];  ///< source or target
  std::uint64_t count[kMost];
  std::uint32_t first_tile[kMost];
};

/// Blocks that are added up; in bytes at most kBytes.
template <std::size_t kBytes>
struct BlockSumTable {
  static constexpr std::uint32_t kMost = (kBytes - 40) / 16;

  std::uint64_t to_elements;
  std::uint64_t to_scales;
  std::uint64_t count;  ///< elements, of whole blocks
  double factor;
  std::uint32_t sources;
  std::uint32_t tile_units;
  std::uint64_t elements[kMost];
  std::uint64_t scales[kMost];
};

using SmallMoves = MoveTable<kParameterBytes>;
using LargeMoves = MoveTable<kLargeParameterBytes>;
using SmallSum = SumTable<kParameterBytes>;
using LargeSum = SumTable<kLargeParameterBytes>;
using SmallBlocks = BlockTable<kParameterBytes>;
using LargeBlocks = BlockTable<kLargeParameterBytes>;
using SmallBlockSum = BlockSumTable<kParameterBytes>;
using LargeBlockSum = BlockSumTable<kLargeParameterBytes>;
static_assert(sizeof(SmallMoves) <= kParameterBytes && sizeof(LargeMoves) <= kLargeParameterBytes);
static_assert(sizeof(SmallSum) <= kParameterBytes && sizeof(LargeSum) <= kLargeParameterBytes);
static_assert(sizeof(SmallBlocks) <= kParameterBytes && sizeof(LargeBlocks) <= kLargeParameterBytes);
static_assert(sizeof(SmallBlockSum) <= kParameterBytes && sizeof(LargeBlockSum) <= kLargeParameterBytes);

/// Units of a tile, for a table of moves with so many units in all on a GPU of so many multiprocessors: large
/// ones keep more loads under way, small ones give all multiprocessors something to do.
constexpr std::uint32_t tile_units_for(std::uint64_t units, std::uint32_t multiprocessors) {
  const std::uint64_t large = kThreads * kDepth;
  return units / large >= 4ULL * multiprocessors ? kThreads * kDepth : kThreads;
}

/// Blocks of a sum of `count` elements in units of `unit`: a thread for each unit, and for each element that
/// is left. `count` is at least 1.
constexpr std::uint32_t sum_blocks(std::uint64_t count, std::uint32_t unit) {
  const std::uint64_t threads = count / unit + count % unit;
  return static_cast<std::uint32_t>((threads - 1) / kThreads + 1);
}

}  // namespace hora::cuda
