// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_by_levels.h"

#include "core/backend/shm/write_guard.h"
#include "test/core/backend/shm/arenas.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

namespace hora::shm {
namespace {

/// The tensors of the ranks: as many elements in each segment, in the arena, and the result in its place.
struct Brought {
  std::vector<std::shared_ptr<std::byte>> memory;  // by rank
  std::vector<std::size_t> counts;                 // of the segments, one after the other
  std::size_t each = 0;

  [[nodiscard]] std::vector<Segment> segments(int rank) const {
    std::vector<Segment> all;
    std::byte* next = memory[static_cast<std::size_t>(rank)].get();
    for (const std::size_t count : counts) {
      all.push_back({next, next, count});
      next += count * each;
    }
    return all;
  }
};

/// Runs it on ranks that are threads; the last rank leaves first, if it is said so.
void run(const std::vector<std::shared_ptr<Arena>>& arenas, const Brought& brought,
         const std::vector<int>& sizes, const Reduction& reduction, bool last_leaves = false) {
  const auto ranks = static_cast<int>(arenas.size());
  run_ranks(ranks, [&](int rank) {
    const Communicator communicator(arenas[static_cast<std::size_t>(rank)], rank, ranks);
    Rounds rounds(communicator);
    RemoteAccess access(communicator, nullptr);
    WriteByLevels write_by_levels(communicator, rounds, access);
    const auto segments = brought.segments(rank);
    Mailbox& own = rounds.open(Call::allreduce, 0, 0);
    for (std::size_t i = 0; i < segments.size(); ++i)
      own.inputs[i] = own.outputs[i] = access.locate(segments[i].input);
    rounds.meet();
    if (last_leaves && rank == ranks - 1) leave(communicator, nullptr);
    rounds.phase();
    write_by_levels.run(Levels(ranks, sizes), segments, reduction);
    rounds.phase();
  });
}

class WriteByLevelsTest : public testing::TestWithParam<std::pair<int, std::vector<int>>> {};

TEST_P(WriteByLevelsTest, HasTheBitsOfOneRankThatSumsLevelByLevel) {
  const auto& [ranks, sizes] = GetParam();
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const DType dtype : {DType::float32, DType::float16, DType::bfloat16, DType::float64}) {
    for (const std::size_t most : {20u, 3000u, 150'000u}) {
      const auto arenas = make_arenas(ranks);
      Brought brought{{}, {}, size_of(dtype)};
      for (int i = 0; i < 5; ++i) brought.counts.push_back(random() % most);
      std::size_t total = 0;
      for (const std::size_t count : brought.counts) total += count;
      const std::size_t bytes = std::max<std::size_t>(total * brought.each, 1);
      std::vector<const void*> inputs;
      for (const auto& arena : arenas) {
        std::vector<float> values(total);
        std::generate(values.begin(), values.end(), [&] { return normal(random); });
        brought.memory.push_back(arena->allocate(bytes));
        if (dtype == DType::float32) {
          std::memcpy(brought.memory.back().get(), values.data(), total * sizeof(float));
        } else {
          kernels::cast(brought.memory.back().get(), dtype, values.data(), DType::float32, total);
        }
        inputs.push_back(brought.memory.back().get());
      }
      const Reduction reduction{dtype, ReduceOp::sum, 0.5, 3.0, ranks};
      std::vector<std::byte> expected(bytes);
      void* output = expected.data();
      Sums(Communicator(arenas[0], 0, ranks), sizes).reduce(inputs, {&output, 1}, total, reduction);
      run(arenas, brought, sizes, reduction);
      for (const auto& memory : brought.memory)
        ASSERT_EQ(std::memcmp(memory.get(), expected.data(), total * brought.each), 0)
            << name(dtype) << " " << total;
    }
  }
}

TEST_P(WriteByLevelsTest, DoesNothingOnceARankHasLeft) {
  const auto& [ranks, sizes] = GetParam();
  const auto arenas = make_arenas(ranks);
  constexpr std::size_t kCount = 100'000;
  Brought brought{{}, {kCount}, sizeof(float)};
  for (const auto& arena : arenas) {
    brought.memory.push_back(arena->allocate(kCount * sizeof(float)));
    std::fill_n(reinterpret_cast<float*>(brought.memory.back().get()), kCount, 1.0F);
  }
  run(arenas, brought, sizes, {}, true);
  for (const auto& memory : brought.memory) {
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_EQ(reinterpret_cast<const float*>(memory.get())[i], 1.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, WriteByLevelsTest,
                         testing::Values(std::pair(4, std::vector<int>{2}), std::pair(5, std::vector<int>{2}),
                                         std::pair(7, std::vector<int>{3}),
                                         std::pair(9, std::vector<int>{2, 4}),
                                         std::pair(9, std::vector<int>{2, 4, 8})),
                         [](const auto& shape) {
                           std::string text = std::to_string(shape.param.first);
                           for (const int size : shape.param.second) text += "_" + std::to_string(size);
                           return text;
                         });

}  // namespace
}  // namespace hora::shm
