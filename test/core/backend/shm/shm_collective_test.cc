// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/shm_collective.h"

#include "test/core/backend/shm/arenas.h"
#include "test/support/elements.h"
#include "test/support/repeating.h"
#include "test/support/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <thread>

namespace hora::shm {
namespace {

/// A buffer in the arena or in private memory.
std::shared_ptr<std::byte> buffer(Collective& collective, bool in_arena, std::size_t bytes) {
  if (in_arena) return collective.allocate(bytes);
  return {new std::byte[std::max<std::size_t>(bytes, 1)], [](const std::byte* data) { delete[] data; }};
}

/// How one random call looks: the same on all ranks, except where buffers lie.
struct Plan {
  explicit Plan(unsigned seed) : random(seed) {
    const std::vector<DType> dtypes = reduced_dtypes();
    dtype = dtypes[random() % dtypes.size()];
    op = std::array{ReduceOp::sum, ReduceOp::min, ReduceOp::max}[random() % 3];
    const std::size_t many = random() % 20 == 0 ? 3000 : 1 + random() % 6;
    const std::size_t most =
        many > 100 ? 30 : std::array<std::size_t, 4>{20, 300, 6000, 400'000}[random() % 4];
    for (std::size_t i = 0; i < many; ++i) counts.push_back(random() % most);
  }
  std::mt19937 random;
  DType dtype;
  ReduceOp op;
  std::vector<std::size_t> counts;
};

int brought(const Plan& plan, int rank, std::size_t segment, std::size_t i) {
  const int value = static_cast<int>((i * 5 + segment + static_cast<std::size_t>(rank) * 3) % 4);
  return plan.dtype == DType::boolean ? value % 2 : value;
}

double expected(const Plan& plan, int ranks, std::size_t segment, std::size_t i) {
  int result = brought(plan, 0, segment, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const int value = brought(plan, rank, segment, i);
    if (plan.op == ReduceOp::sum) result += value;
    if (plan.op == ReduceOp::min) result = std::min(result, value);
    if (plan.op == ReduceOp::max) result = std::max(result, value);
  }
  return plan.dtype == DType::boolean ? std::min(result, 1) : result;
}

/// One rank's random call. `where` draws differently on each rank: arena or private, in place or not.
void run_plan(Collective& collective, const Plan& plan, int rank, int ranks, std::mt19937& where) {
  const std::size_t each = size_of(plan.dtype);
  const unsigned style = where() % 4;  // all in the arena, all private, or mixed
  std::vector<std::shared_ptr<std::byte>> held;
  std::vector<Segment> segments;
  for (std::size_t s = 0; s < plan.counts.size(); ++s) {
    const auto in_arena = [&] { return style == 0 || (style > 1 && where() % 2 == 0); };
    const std::size_t shift = where() % 3 * each;
    const std::size_t bytes = plan.counts[s] * each + shift;
    held.push_back(buffer(collective, in_arena(), bytes));
    const auto input = held.back();
    if (where() % 2 == 0) held.push_back(buffer(collective, in_arena(), bytes));
    segments.push_back({input.get() + shift, held.back().get() + shift, plan.counts[s]});
    fill_repeating(input.get() + shift, plan.dtype, plan.counts[s],
                   [&](std::size_t i) { return brought(plan, rank, s, i); });
  }
  collective.allreduce(segments, {plan.dtype, plan.op, 1.0, 1.0, 1});
  for (std::size_t s = 0; s < segments.size(); ++s) {
    ASSERT_TRUE(holds_repeating(segments[s].output, plan.dtype, segments[s].count,
                                [&](std::size_t i) { return expected(plan, ranks, s, i); }))
        << "segment " << s;
  }
}

TEST(ShmCollective, AnyMixtureOfBuffersGivesTheExactResult) {
  for (const int ranks : {1, 2, 3, 5}) {
    for (const bool access : {false, true}) {
      const auto group = make_shm_group(ranks, access);
      run_ranks(ranks, [&](int rank) {
        std::mt19937 where(static_cast<unsigned>(rank) + 100);
        for (unsigned seed = 0; seed < 60; ++seed) {
          SCOPED_TRACE(seed);
          run_plan(*group[static_cast<std::size_t>(rank)], Plan(seed), rank, ranks, where);
        }
      });
    }
  }
}

/// The result of one allreduce of these, a rank each; all ranks must have the same bits. `path`: where the
/// buffers lie, and how they are cut.
enum class Path { arena, reached, staged, pieces, calls };

std::vector<float> averaged(const std::vector<std::vector<float>>& inputs, Path path, const ShmWays& ways) {
  const auto ranks = static_cast<int>(inputs.size());
  const std::size_t count = inputs.front().size();
  const auto group = make_shm_group(ranks, path == Path::reached, kTestRegion, ways);
  std::vector<std::vector<float>> results(inputs.size(), std::vector<float>(count));
  run_ranks(ranks, [&](int rank) {
    const auto who = static_cast<std::size_t>(rank);
    Collective& own = *group[who];
    const bool in_arena = path != Path::reached && path != Path::staged;
    const auto memory = buffer(own, in_arena, count * sizeof(float));
    auto* data = reinterpret_cast<float*>(memory.get());
    std::copy(inputs[who].begin(), inputs[who].end(), data);
    std::vector<Segment> segments;
    const std::size_t step = in_arena && path != Path::arena ? 777 : count;
    for (std::size_t i = 0; i < count; i += step)
      segments.push_back({data + i, data + i, std::min(step, count - i)});
    const std::size_t at_once = path == Path::calls ? 1 : segments.size();
    for (std::size_t i = 0; i < segments.size(); i += at_once)
      own.allreduce(std::span(segments).subspan(i, at_once), {DType::float32, ReduceOp::sum, 1.0, 1.0, 3});
    std::copy_n(data, count, results[who].begin());
  });
  for (const auto& result : results) EXPECT_EQ(result, results.front()) << static_cast<int>(path);
  return results.front();
}

TEST(ShmCollective, BitsDoNotDependOnThePathOrOnWhereItIsCut) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<std::vector<float>> results;
  for (const auto& levels : {std::vector<int>{}, {2}, {2, 4}}) {
    std::vector<std::vector<float>> inputs(5, std::vector<float>(100'000));
    random.seed(5);
    for (auto& input : inputs) std::generate(input.begin(), input.end(), [&] { return normal(random); });
    const ShmWays ways{{}, {}, levels};
    results.push_back(averaged(inputs, Path::arena, ways));
    for (const Path path : {Path::reached, Path::staged, Path::pieces, Path::calls})
      EXPECT_EQ(averaged(inputs, path, ways), results.back()) << static_cast<int>(path);
  }
  EXPECT_NE(results[0], results[1]);  // else it is no test of the levels
}

TEST(ShmCollective, HasTheSameBitsWhileItTriesWhetherLevelsAreFaster) {
  constexpr int kRanks = 10;
  constexpr std::size_t kCount = 100'000;
  const auto arenas = make_arenas(kRanks);
  std::vector<std::unique_ptr<Collective>> group;
  for (int rank = 0; rank < kRanks; ++rank)
    group.push_back(make_shm_collective({arenas[static_cast<std::size_t>(rank)], rank, kRanks}, nullptr));
  for (int rank = 0; rank < kRanks; ++rank)
    arenas[0]->block(rank).cores.cache.store(static_cast<std::uint32_t>(rank % 2 + 1));
  run_ranks(kRanks, [&](int rank) {
    Collective& own = *group[static_cast<std::size_t>(rank)];
    const auto input = own.allocate(kCount * sizeof(float));
    const auto output = own.allocate(kCount * sizeof(float));
    std::mt19937 random(static_cast<unsigned>(rank));
    std::normal_distribution<float> normal;
    std::generate_n(reinterpret_cast<float*>(input.get()), kCount, [&] { return normal(random); });
    const Segment segment{input.get(), output.get(), kCount};
    std::vector<float> first;
    for (int i = 0; i < 20; ++i) {
      own.allreduce({&segment, 1}, {});
      const auto* result = reinterpret_cast<const float*>(output.get());
      if (first.empty()) first.assign(result, result + kCount);
      ASSERT_TRUE(std::equal(first.begin(), first.end(), result)) << i;
      std::fill_n(reinterpret_cast<float*>(output.get()), kCount, 0.0F);
    }
  });
}

TEST(ShmCollective, BroadcastsMorePiecesThanAMailboxHas) {
  const auto group = make_shm_group(3, true);
  run_ranks(3, [&](int rank) {
    std::vector<int> numbers(3 * kLocations);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = rank * 100'000 + static_cast<int>(i);
    std::vector<std::span<std::byte>> pieces;
    for (auto& number : numbers) pieces.push_back(std::as_writable_bytes(std::span(&number, 1)));
    group[static_cast<std::size_t>(rank)]->broadcast_all(pieces, 1);
    for (std::size_t i = 0; i < numbers.size(); ++i) ASSERT_EQ(numbers[i], 100'000 + static_cast<int>(i));
  });
}

TEST(ShmCollective, RanksThatDisagreeFailInsteadOfMixingBytes) {
  const auto group = make_shm_group(2, true);
  run_ranks(2, [&](int rank) {
    std::vector<float> x(rank == 0 ? 10'000 : 20'000);
    const Segment segment{x.data(), x.data(), x.size()};
    for (int i = 0; i < 2; ++i) {
      try {
        group[static_cast<std::size_t>(rank)]->allreduce({&segment, 1}, {});
        FAIL();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Code::internal);
        EXPECT_THAT(error.what(), testing::HasSubstr("40000 bytes"));
        EXPECT_THAT(error.what(), testing::HasSubstr("80000 bytes"));
      }
    }
    EXPECT_EQ(x, std::vector<float>(x.size()));
  });
}

TEST(ShmCollective, AnAbortEndsAllWhoAreInTheMiddleOfSomething) {
  for (int round = 0; round < 30; ++round) {
    const auto group = make_shm_group(3, round % 2 == 0);
    const Status why{Code::aborted, "rank 2 was lost"};
    run_ranks(3, [&](int rank) {
      Collective& collective = *group[static_cast<std::size_t>(rank)];
      auto memory = buffer(collective, round % 3 == 0, 2 << 20);
      const Segment segment{memory.get(), memory.get(), (2 << 20) / 4};
      if (rank == 2) {  // works for a while, and is never seen again
        for (int i = 0; i < round % 5; ++i) collective.allreduce({&segment, 1}, {});
        for (const auto& other : group) other->abort(why);
        return;
      }
      try {
        while (true) collective.allreduce({&segment, 1}, {});
      } catch (const Error& error) {
        EXPECT_EQ(error.status(), why);
      }
    });
  }
}

TEST(ShmCollective, OwnsOnlyTheArena) {
  const auto group = make_shm_group(1, true);
  int x = 0;
  EXPECT_FALSE(group[0]->owns(&x));
  EXPECT_TRUE(group[0]->owns(group[0]->allocate(1).get()));
}

// A rank that hears of the abort first may leave when it has arrived at the last phase and others have not.
TEST(ShmCollective, ACallThatALeaverMadeIncompleteFails) {
  const auto arenas = make_arenas(2);
  arenas.front()->block(1).gone.store(1);
  run_ranks(2, [&](int rank) {
    const auto collective =
        make_shm_collective({arenas[static_cast<std::size_t>(rank)], rank, 2}, make_thread_memory());
    std::vector<float> data(100'000, 1.0F);
    const Segment segment{data.data(), data.data(), data.size()};
    try {
      collective->allreduce({&segment, 1}, {});
      ADD_FAILURE() << "it says that all is done";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::aborted);
    }
  });
}

}  // namespace
}  // namespace hora::shm
