// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

// How the kernels go through memory: what host and GPU must compute alike, and what tests check on the host.
// nvcc compiles constexpr functions for the GPU, too.
//
// The elements of a move are taken in units whose wider side has 16 bytes, so both sides have 4, 8 or 16. The
// units begin where the target is aligned to its side of a unit; the elements before and after them, the
// edges, are fewer than four units, and are taken one by one. Where the source is not aligned alike a unit is
// cut out of the two aligned pieces that it lies in; units that would look beyond the source belong to the
// edges. Threads next to each other take units next to each other. A tile is what a block of threads takes.

namespace hora::cuda {

inline constexpr std::uint32_t kUnitBytes = 16;
inline constexpr std::uint32_t kThreads = 256;  ///< of a block
inline constexpr std::uint32_t kDepth = 4;      ///< units that a thread loads before it stores the first

/// How elements are read and written.
enum class Access : std::uint8_t {
  aligned,  ///< units, aligned on both sides
  shifted,  ///< units, whose source lies across aligned pieces
  bytes,    ///< elements that are not even aligned to their own size, a byte at a time: units of one element
};

/// A move's elements are `head`, `units` times `unit`, and `tail` of them. A value.
struct Walk {
  Access access = Access::aligned;
  std::uint32_t unit = 1;   ///< elements
  std::uint32_t shift = 0;  ///< bytes by which the source lies behind its aligned pieces
  std::uint32_t head = 0;
  std::uint32_t tail = 0;
  std::uint64_t units = 0;
};

/// Elements of a unit, if those of both sides have these sizes in bytes.
constexpr std::uint32_t unit_of(std::uint32_t to_size, std::uint32_t from_size) {
  return kUnitBytes / (to_size > from_size ? to_size : from_size);
}

/// With a source that does not lie as its target does: units that lie in two aligned pieces, both of them
/// inside of the source.
constexpr Walk shifted_walk(Walk walk, std::uint64_t from, std::uint64_t count, std::uint32_t from_size) {
  const std::uint32_t piece = walk.unit * from_size;
  walk.access = Access::shifted;
  if (walk.head * from_size < walk.shift) walk.head += walk.unit;
  if (walk.head >= count) return {Access::aligned, walk.unit, 0, static_cast<std::uint32_t>(count), 0, 0};
  const std::uint64_t first_piece = from + walk.head * from_size - walk.shift;
  const std::uint64_t pieces = (from + count * from_size - first_piece) / piece;
  const std::uint64_t whole = (count - walk.head) / walk.unit;
  const std::uint64_t inside = pieces == 0 ? 0 : pieces - 1;
  walk.units = inside < whole ? inside : whole;
  walk.tail = static_cast<std::uint32_t>(count - walk.head - walk.units * walk.unit);
  return walk;
}

/// `to` 0: only the source matters. Sizes are of elements, in bytes.
constexpr Walk walk_of(std::uint64_t to, std::uint64_t from, std::uint64_t count, std::uint32_t to_size,
                       std::uint32_t from_size) {
  Walk walk;
  walk.unit = unit_of(to_size, from_size);
  const std::uint64_t anchor = to != 0 ? to : from;
  const std::uint32_t size = to != 0 ? to_size : from_size;
  // Sizes are powers of two.
  const std::uint32_t behind = static_cast<std::uint32_t>(anchor) & (walk.unit * size - 1);
  if ((behind & (size - 1)) != 0) return {Access::bytes, 1, 0, 0, 0, count};
  walk.head = behind == 0 ? 0 : walk.unit - behind / size;
  if (walk.head >= count) {
    walk.head = static_cast<std::uint32_t>(count);
    return walk;
  }
  walk.shift = static_cast<std::uint32_t>(from + walk.head * from_size) & (walk.unit * from_size - 1);
  if (walk.shift != 0) return shifted_walk(walk, from, count, from_size);
  walk.units = (count - walk.head) / walk.unit;
  walk.tail = static_cast<std::uint32_t>((count - walk.head) % walk.unit);
  return walk;
}

/// Elements that become blocks of block-scaled floats, or come of them: units of four elements, of whole
/// blocks. Eight threads next to each other take a block.
constexpr Walk block_walk(std::uint64_t count) {
  constexpr std::uint32_t kUnitsOfBlock = 8;
  Walk walk;
  walk.unit = 4;
  walk.units = (count + kUnitsOfBlock * walk.unit - 1) / (kUnitsOfBlock * walk.unit) * kUnitsOfBlock;
  return walk;
}

/// How many tiles of `tile_units` units; at least one, which has the edges.
constexpr std::uint64_t tiles_of(const Walk& walk, std::uint32_t tile_units) {
  return walk.units == 0 ? 1 : (walk.units - 1) / tile_units + 1;
}

/// The entry whose tiles `tile` belongs to, where `first[i]` is the first tile of entry i, in rising order;
/// first[0] is 0.
constexpr std::uint32_t entry_of(const std::uint32_t* first, std::uint32_t entries, std::uint32_t tile) {
  std::uint32_t low = 0;
  std::uint32_t high = entries;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (first[middle] <= tile) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

/// The work of thread `thread` of kThreads in tile `tile` of a move: visit.units(u, end) stands for the units
/// u, u + kThreads, ... of which kDepth at most are less than `end`, and visit.element(i) for an edge's
/// element.
template <typename Visit>
constexpr void visit_tile(const Walk& walk, std::uint64_t tile, std::uint32_t tile_units,
                          std::uint32_t thread, Visit& visit) {
  const std::uint64_t begin = tile * tile_units;
  const std::uint64_t left = walk.units - begin;
  const std::uint64_t end = begin + (left < tile_units ? left : tile_units);
  for (std::uint64_t u = begin + thread; u < end; u += kThreads * kDepth) visit.units(u, end);
  const std::uint32_t after = thread - 2 * kUnitBytes;  // other threads than the head's, wrapping around
  const bool before = tile == 0 && thread < walk.head;
  const bool behind = end == walk.units && after < walk.tail;
  if (before || behind) visit.element(before ? thread : walk.head + walk.units * walk.unit + after);
}

/// The unit of kWords words that begins `shift` bytes into the aligned piece `low`, which `high` follows.
template <int kWords>
constexpr void cut_out(std::uint32_t* unit, const std::uint32_t* low, const std::uint32_t* high,
                       std::uint32_t shift) {
  std::uint32_t words[2 * kWords + 1] = {};
  for (int i = 0; i < kWords; ++i) {
    words[i] = low[i];
    words[kWords + i] = high[i];
  }
  if constexpr (kWords >= 4) {
    if ((shift & 8) != 0) {
      for (int i = 0; i + 2 < 2 * kWords; ++i) words[i] = words[i + 2];
    }
  }
  if constexpr (kWords >= 2) {
    if ((shift & 4) != 0) {
      for (int i = 0; i + 1 < 2 * kWords; ++i) words[i] = words[i + 1];
    }
  }
  const std::uint32_t bits = (shift & 3) * 8;
  for (int i = 0; i < kWords; ++i) {
    const std::uint64_t both = (static_cast<std::uint64_t>(words[i + 1]) << 32) | words[i];
    unit[i] = static_cast<std::uint32_t>(both >> bits);
  }
}

}  // namespace hora::cuda
