// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/walk.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <vector>

namespace hora::cuda {
namespace {

// Sizes of the elements of target and source, in bytes.
struct Sizes {
  std::uint32_t to;
  std::uint32_t from;
};

constexpr std::array kSizes{Sizes{1, 1}, Sizes{2, 2}, Sizes{4, 4}, Sizes{8, 8}, Sizes{2, 4},
                            Sizes{4, 2}, Sizes{2, 8}, Sizes{8, 2}, Sizes{4, 8}, Sizes{8, 4}};

/// The visits of a kernel: counts how often each element is taken, and checks that reads and writes are
/// aligned and inside.
class Visitor {
 public:
  Visitor(std::uint64_t to, std::uint64_t from, std::uint64_t count, Sizes sizes)
      : walk(walk_of(to, from, count, sizes.to, sizes.from)),
        to_(to),
        from_(from),
        sizes_(sizes),
        taken(count) {}

  void element(std::uint64_t i) { take(i); }

  void units(std::uint64_t u, std::uint64_t end) {
    for (std::uint32_t k = 0; k < kDepth && u < end; ++k, u += kThreads) {
      for (std::uint32_t i = 0; i < walk.unit; ++i) take(walk.head + u * walk.unit + i);
      if (walk.access != Access::bytes) look_at_unit(u);
    }
  }

  void visit_all(std::uint32_t tile_units) {
    for (std::uint64_t tile = 0; tile < tiles_of(walk, tile_units); ++tile) {
      for (std::uint32_t thread = 0; thread < kThreads; ++thread)
        visit_tile(walk, tile, tile_units, thread, *this);
    }
  }

  [[nodiscard]] bool each_once() const {
    for (const auto times : taken) {
      if (times != 1) return false;
    }
    return inside;
  }

  const Walk walk;

 private:
  void take(std::uint64_t i) {
    if (i < taken.size()) {
      ++taken[i];
    } else {
      inside = false;
    }
  }

  void look_at_unit(std::uint64_t u) {
    const std::uint32_t piece = walk.unit * sizes_.from;
    const std::uint64_t read = from_ + walk.head * sizes_.from + u * piece - walk.shift;
    const std::uint64_t bytes = walk.access == Access::shifted ? 2 * piece : piece;
    inside =
        inside && read % piece == 0 && read >= from_ && read + bytes <= from_ + taken.size() * sizes_.from;
    if (to_ == 0) return;
    const std::uint32_t side = walk.unit * sizes_.to;
    inside = inside && (to_ + walk.head * sizes_.to + u * side) % side == 0;
  }

  const std::uint64_t to_;
  const std::uint64_t from_;
  const Sizes sizes_;

 public:
  std::vector<std::uint8_t> taken;
  bool inside = true;
};

constexpr std::uint64_t kTo = 0x10000;
constexpr std::uint64_t kFrom = 0x90000;

TEST(Walk, TakesEveryElementOnceAndTouchesNothingElse) {
  for (const Sizes sizes : kSizes) {
    for (std::uint64_t to = 0; to < 16; ++to) {
      for (std::uint64_t from = 0; from < 16; ++from) {
        for (std::uint64_t count = 1; count <= 100; ++count) {
          Visitor visitor(kTo + to, kFrom + from, count, sizes);
          visitor.visit_all(kThreads);
          ASSERT_TRUE(visitor.each_once())
              << sizes.to << " " << sizes.from << ": " << to << " " << from << ", " << count << " elements";
        }
      }
    }
  }
}

TEST(Walk, DoesSoAcrossTiles) {
  for (const Sizes sizes : kSizes) {
    const std::uint64_t tile = kThreads * unit_of(sizes.to, sizes.from);
    for (const std::uint64_t offset : {0, 1, 4, 6, 12}) {
      for (const std::uint64_t count : {tile - 1, tile, tile + 1, 4 * tile, 4 * tile + 33, 9 * tile + 5}) {
        for (const std::uint32_t units : {kThreads, kThreads * kDepth}) {
          Visitor visitor(kTo + offset, kFrom, count, sizes);
          visitor.visit_all(units);
          ASSERT_TRUE(visitor.each_once())
              << sizes.to << " " << sizes.from << ": " << offset << ", " << count;
        }
      }
    }
  }
}

TEST(Walk, OnlyLooksAtASourceWithoutATarget) {
  for (const std::uint32_t size : {2U, 4U, 8U}) {
    for (std::uint64_t from = 0; from < 16; ++from) {
      for (std::uint64_t count = 1; count <= 100; ++count) {
        Visitor visitor(0, kFrom + from, count, {size, size});
        visitor.visit_all(kThreads);
        ASSERT_TRUE(visitor.each_once()) << size << ": " << from << ", " << count;
      }
    }
  }
}

TEST(Walk, TakesUnitsWhereverElementsAreAligned) {
  EXPECT_EQ(walk_of(kTo, kFrom, 1000, 2, 4).access, Access::aligned);
  EXPECT_EQ(walk_of(kTo, kFrom, 1000, 2, 4).units, 250U);
  EXPECT_EQ(walk_of(kTo + 6, kFrom + 12, 1000, 2, 4).access, Access::aligned) << "both are three elements on";
  EXPECT_EQ(walk_of(kTo + 2, kFrom, 1000, 2, 4).access, Access::shifted);
  EXPECT_GE(walk_of(kTo + 2, kFrom, 1000, 2, 4).units, 248U);
  EXPECT_EQ(walk_of(kTo, kFrom + 1, 1000, 2, 4).access, Access::shifted);
  EXPECT_EQ(walk_of(kTo + 1, kFrom, 1000, 2, 4).access, Access::bytes);
  EXPECT_EQ(walk_of(kTo + 1, kFrom, 1000, 1, 1).access, Access::shifted) << "bytes are always aligned";
}

struct LastElement {
  std::uint64_t last = 0;
  void element(std::uint64_t i) { last = i > last ? i : last; }
  void units(std::uint64_t, std::uint64_t) {}
};

TEST(Walk, CountsBeyondThirtyTwoBits) {
  const std::uint64_t count = (std::uint64_t{1} << 33) + 3;
  const Walk walk = walk_of(kTo, kFrom, count, 4, 4);
  EXPECT_EQ(walk.units, std::uint64_t{1} << 31);
  EXPECT_EQ(walk.tail, 3U);
  const std::uint64_t tiles = tiles_of(walk, kThreads * kDepth);
  EXPECT_EQ(tiles, std::uint64_t{1} << 21);
  LastElement visitor;
  for (std::uint32_t thread = 0; thread < kThreads; ++thread)
    visit_tile(walk, tiles - 1, kThreads * kDepth, thread, visitor);
  EXPECT_EQ(visitor.last, count - 1);
}

TEST(BlockWalk, TakesWholeBlocks) {
  for (const auto& [count, blocks] : {std::pair{1, 1}, {32, 1}, {33, 2}, {1024, 32}}) {
    const Walk walk = block_walk(static_cast<std::uint64_t>(count));
    EXPECT_EQ(walk.unit, 4U);
    EXPECT_EQ(walk.units, 8U * static_cast<unsigned>(blocks)) << count;
  }
}

TEST(EntryOf, FindsWhoseTileItIs) {
  for (std::uint32_t entries = 1; entries <= 40; ++entries) {
    std::vector<std::uint32_t> first;
    std::vector<std::uint32_t> owners;
    for (std::uint32_t entry = 0; entry < entries; ++entry) {
      first.push_back(static_cast<std::uint32_t>(owners.size()));
      owners.insert(owners.end(), 1 + entry % 4, entry);
    }
    for (std::uint32_t tile = 0; tile < owners.size(); ++tile)
      ASSERT_EQ(entry_of(first.data(), entries, tile), owners[tile]) << entries << " entries";
  }
}

template <int kWords>
void cut_at_every_byte() {
  std::array<std::uint8_t, 2 * kWords * 4> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint8_t>(0x80 + 3 * i);
  std::array<std::uint32_t, 2 * kWords> pieces{};
  std::memcpy(pieces.data(), bytes.data(), bytes.size());
  for (std::uint32_t shift = 0; shift < kWords * 4; ++shift) {
    std::array<std::uint32_t, kWords> unit{};
    cut_out<kWords>(unit.data(), pieces.data(), pieces.data() + kWords, shift);
    EXPECT_EQ(std::memcmp(unit.data(), bytes.data() + shift, kWords * 4), 0)
        << kWords << " words at " << shift;
  }
}

TEST(CutOut, TakesAUnitOutOfTwoPiecesAtAnyByte) {
  cut_at_every_byte<1>();
  cut_at_every_byte<2>();
  cut_at_every_byte<4>();
}

}  // namespace
}  // namespace hora::cuda
