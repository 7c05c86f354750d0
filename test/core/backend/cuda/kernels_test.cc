// SPDX-License-Identifier: Apache-2.0
// How kernels.cu goes through a GPU's memory. Their results are compared in test/gpu/kernels_test.cc.
#include "core/backend/cuda/kernels.h"

#include "core/backend/cuda/move_table.h"
#include "test/bench/resnet50.h"
#include "test/support/fake_gpu/fake_kernels.h"
#include "test/support/fake_gpu/fake_machine.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hora::cuda {
namespace {

constexpr int kCapability = 90;
constexpr std::uint32_t kMultiprocessors = 132;  // of an H100

struct Kind {
  std::string name;
  std::uint32_t size;
};
const std::vector<Kind> kKinds{{"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}};

using Memory = std::unique_ptr<std::byte, FreeMemory>;

/// As a GPU's memory is aligned. All zero.
Memory memory(std::size_t bytes) {
  constexpr std::size_t kAlignment = 512;
  const std::size_t whole = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  Memory made(static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole)));
  std::fill_n(made.get(), whole, std::byte{});
  return made;
}

/// The bytes that a kernel has to move, and its least efficiency. That is the number of sectors in which so
/// many bytes can lie, divided by the number of those that were touched.
struct Needed {
  std::size_t bytes = 0;
  double efficiency = 0;
};

void expect_efficient(const MemoryTraffic& traffic, const Needed& stored, const Needed& loaded,
                      const std::string& kernel) {
  for (const auto& [direction, needed] : {std::pair{Direction::store, stored}, {Direction::load, loaded}}) {
    const double least = static_cast<double>(needed.bytes) / MemoryTraffic::kSectorBytes;
    EXPECT_GE(least / static_cast<double>(traffic.sectors(direction)), needed.efficiency)
        << kernel << (direction == Direction::store ? ", stores" : ", loads");
  }
}

void run(const std::string& name, const void* table, unsigned grid, MemoryTraffic& traffic) {
  const auto everything = [](const void*, std::size_t) { return true; };
  ASSERT_TRUE(fake_kernel(kCapability, name)->run(table, grid, everything, &traffic)) << name;
}

/// All these moves with one kernel, in as many launches as it needs.
MemoryTraffic traffic_of(const std::string& name, std::span<const Move> moves, std::uint32_t to_size,
                         std::uint32_t from_size, double factor) {
  MemoryTraffic traffic;
  const auto table = std::make_unique<SmallMoves>();
  table->flag = nullptr;
  table->factor = factor;
  while (!moves.empty()) {
    const Filled filled = fill(*table, moves, to_size, from_size, kMultiprocessors);
    run(name, table.get(), filled.tiles, traffic);
    moves = moves.subspan(filled.moves);
  }
  return traffic;
}

TEST(Kernels, TouchFewMoreSectorsThanAlignedElementsLieIn) {
  constexpr std::size_t kCount = 100'003;
  constexpr double kLeast = 0.95;
  const Memory to = memory(kCount * sizeof(double));
  const Memory from = memory(kCount * sizeof(double));
  const Move bytes{to.get(), from.get(), kCount};
  const auto copied = traffic_of("hora_copy", {&bytes, 1}, 1, 1, 1.0);
  expect_efficient(copied, {kCount, kLeast}, {kCount, kLeast}, "copy");
  for (const auto& target : kKinds) {
    for (const auto& source : kKinds) {
      const Move move{to.get(), from.get(), kCount};
      const std::string name = "hora_move_" + target.name + "_" + source.name;
      const auto traffic = traffic_of(name, {&move, 1}, target.size, source.size, 0.5);
      expect_efficient(traffic, {kCount * target.size, kLeast}, {kCount * source.size, kLeast}, name);
    }
    if (target.size == sizeof(double)) continue;
    SmallSum sum{};
    sum.to = reinterpret_cast<std::uint64_t>(to.get());
    sum.count = kCount;
    sum.factor = 1.0;
    sum.sources = 3;
    sum.unit = kUnitBytes / target.size;
    for (int i = 0; i < 3; ++i) sum.from[i] = reinterpret_cast<std::uint64_t>(from.get());
    MemoryTraffic traffic;
    run("hora_sum_" + target.name, &sum, sum_blocks(kCount, sum.unit), traffic);
    expect_efficient(traffic, {kCount * target.size, kLeast}, {3 * kCount * target.size, kLeast},
                     "sum of " + target.name);
  }
}

/// Blocks and elements of a large tensor, and a sum. A warp's four scales have a sector of their own, so 132
/// bytes of blocks lie in five. A thread's four float64 are two instructions, each of which touches all
/// sectors; the caches make one access to the memory of that.
TEST(Kernels, TouchFewMoreSectorsThanBlocksLieIn) {
  constexpr std::size_t kCount = 128'000;
  constexpr double kBlocks = 0.82;
  const Memory plain = memory(kCount * sizeof(double));
  const Memory blocks = memory(kCount * 2);
  const auto number = [](const Memory& of) { return reinterpret_cast<std::uint64_t>(of.get()); };
  const BlockMove move{{blocks.get(), blocks.get() + kCount}, plain.get(), plain.get(), kCount};
  const auto table = std::make_unique<SmallBlocks>();
  table->flag = nullptr;
  table->factor = 1.0;
  for (const std::string format : {"e4m3", "e5m2"}) {
    for (const auto& kind : kKinds) {
      const double least = kind.size == sizeof(double) ? 0.49 : 0.95;
      const Filled filled = fill(*table, {&move, 1}, true, kMultiprocessors);
      MemoryTraffic there;
      run("hora_quantize_" + format + "_" + kind.name, table.get(), filled.tiles, there);
      expect_efficient(there, {kCount * 33 / 32, kBlocks}, {kCount * kind.size, least},
                       "blocks of " + kind.name);
      MemoryTraffic back;
      run("hora_dequantize_" + kind.name + "_" + format, table.get(), filled.tiles, back);
      expect_efficient(back, {kCount * kind.size, least}, {kCount * 33 / 32, kBlocks},
                       kind.name + " of blocks");
    }
    SmallBlockSum sum{number(blocks), number(blocks) + kCount, kCount, 1.0, 2, kThreads * kDepth, {}, {}};
    for (int i = 0; i < 2; ++i) {
      sum.elements[i] = number(blocks);
      sum.scales[i] = number(blocks) + kCount;
    }
    MemoryTraffic traffic;
    run("hora_sum_" + format, &sum, static_cast<unsigned>(tiles_of(block_walk(kCount), sum.tile_units)),
        traffic);
    expect_efficient(traffic, {kCount * 33 / 32, kBlocks}, {2 * kCount * 33 / 32, kBlocks},
                     "sum of " + format);
  }
}

/// The gradients lie one by one, as a framework has allocated them, and side by side in the buffer.
TEST(Kernels, TouchFewMoreSectorsThanTheGradientsOfResNet50LieIn) {
  constexpr double kLeast = 0.85;
  const std::vector<std::int64_t> sizes = bench::resnet50();
  std::vector<Memory> gradients;
  std::size_t count = 0;
  for (const auto elements : sizes) {
    gradients.push_back(memory(static_cast<std::size_t>(elements) * sizeof(float)));
    count += static_cast<std::size_t>(elements);
  }
  for (const auto& packed : {kKinds[2], kKinds[0]}) {
    const Memory buffer = memory(count * packed.size);
    std::vector<Move> packs;
    std::vector<Move> unpacks;
    std::byte* next = buffer.get();
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const auto elements = static_cast<std::size_t>(sizes[i]);
      packs.push_back({next, gradients[i].get(), elements});
      unpacks.push_back({gradients[i].get(), next, elements});
      next += elements * packed.size;
    }
    if (packed.size == sizeof(float)) {
      for (const auto& moves : {packs, unpacks}) {
        std::vector<Move> bytes = moves;
        for (auto& each : bytes) each.count *= sizeof(float);
        const auto copied = traffic_of("hora_copy", bytes, 1, 1, 1.0);
        expect_efficient(copied, {count * sizeof(float), kLeast}, {count * sizeof(float), kLeast}, "copy");
      }
    }
    const auto pack = traffic_of("hora_move_" + packed.name + "_f32", packs, packed.size, 4, 0.5);
    expect_efficient(pack, {count * packed.size, kLeast}, {count * sizeof(float), kLeast}, packed.name);
    const auto unpack = traffic_of("hora_move_f32_" + packed.name, unpacks, 4, packed.size, 0.5);
    expect_efficient(unpack, {count * sizeof(float), kLeast}, {count * packed.size, kLeast}, packed.name);
  }
}

/// This is the count that the tests above rely on.
TEST(MemoryTraffic, CountsTheSectorsOfEachInstructionOfAWarp) {
  MemoryTraffic traffic;
  for (unsigned thread = 0; thread < 64; ++thread)
    traffic.note(Direction::load, thread, 1024 + 4 * thread, 4);
  EXPECT_EQ(traffic.sectors(Direction::load), 8U) << "two warps, 128 bytes each";
  for (unsigned thread = 0; thread < 32; ++thread) traffic.note(Direction::store, thread, 64 * thread, 8);
  EXPECT_EQ(traffic.sectors(Direction::store), 32U) << "a sector for each thread";
  traffic.note(Direction::store, 0, 0, 8);
  EXPECT_EQ(traffic.sectors(Direction::store), 33U) << "another instruction";
  EXPECT_EQ(traffic.sectors(Direction::load), 8U);
}

}  // namespace
}  // namespace hora::cuda
