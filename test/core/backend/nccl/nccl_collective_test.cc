// SPDX-License-Identifier: Apache-2.0
// The behaviour of NcclCollective that the conformance suite does not require of every collective.
#include "core/backend/nccl/nccl_collective.h"

#include "core/base/half.h"
#include "test/support/fake_gpu/nccl_ranks.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace hora::nccl {
namespace {

using Main = std::function<void(NcclRank&, Collective&, int)>;

void each_rank(NcclRanks& ranks, const Main& main) {
  const NcclId id = ranks.make_id();
  run_ranks(ranks.count(), [&](int place) {
    const auto world = ranks.at(place).lane->connect(id, place, ranks.count());
    main(ranks.at(place), *world, place);
  });
}

TEST(NcclCollective, ReturnsBeforeTheGpuHasCarriedItOut) {
  NcclRanks ranks(2);
  each_rank(ranks, [&](NcclRank& rank, Collective& world, int place) {
    const auto data = world.allocate(4);
    if (place == 0) ranks.driver.hold(0);
    const Segment segment{data.get(), data.get(), 1};
    world.allreduce({&segment, 1}, {DType::float32, ReduceOp::sum, 1.0, 1.0, 1});
    const auto event = rank.stream->mark();
    if (place == 0) {
      EXPECT_FALSE(event->reached());
      ranks.driver.release(0);
    }
    await(event.get(), [] {});
  });
}

TEST(NcclCollective, AsksForNothingToBePackedThatIsAMebibyte) {
  NcclRanks ranks(1);
  const auto alone = ranks.at(0).lane->connect({}, 0, 1);
  EXPECT_EQ(alone->pack_below(), std::size_t{1} << 20);
}

constexpr Reduction kSumOfFloats{DType::float32, ReduceOp::sum, 1.0, 1.0, 1};

TEST(NcclCollective, TellsNcclOfMemoryThatAllRanksHaveAlike) {
  NcclRanks ranks(2);
  each_rank(ranks, [&](NcclRank& rank, Collective& world, int) {
    const auto data = world.allocate(1024);
    EXPECT_TRUE(world.owns(data.get() + 1000));
    EXPECT_EQ(rank.context.memory->symmetric_address(data.get()), 0U);
    for (const std::uint64_t address : {std::uint64_t{0}, kSomeSymmetricAddress, kSomeSymmetricAddress}) {
      const Segment segment{data.get(), data.get(), 256, address};
      world.allreduce({&segment, 1}, kSumOfFloats);
      rank.finish();
    }
    rank.lane->check();
  });
  EXPECT_EQ(ranks.nccl.calls("ncclCommRegister") + ranks.nccl.calls("ncclCommWindowRegister"), 2);
  EXPECT_EQ(ranks.nccl.usage().blocks, 0);
  EXPECT_EQ(ranks.nccl.misuses(), std::vector<std::string>{});
}

/// Four numbers.
std::byte* filled(std::byte* data, float value) {
  std::fill_n(reinterpret_cast<float*>(data), 4, value);
  return data;
}

bool four_are(const std::byte* data, float value) {
  const auto* numbers = reinterpret_cast<const float*>(data);
  return std::all_of(numbers, numbers + 4, [=](float each) { return each == value; });
}

using Sizes = std::vector<std::size_t>;

// Rank 0's tensors lie in memory that NCCL knows of, those of rank 1 do not.
TEST(NcclCollective, GivesNcclNoMemoryThatItKnowsOnSomeRanksOnly) {
  NcclRanks ranks(2);
  each_rank(ranks, [&](NcclRank& rank, Collective& world, int place) {
    const auto known = rank.context.memory->allocate(64, true);
    const Segment segment{known.get(), known.get(), 4, kSomeSymmetricAddress};
    world.allreduce({&segment, 1}, kSumOfFloats);
    const auto other = rank.gpu->allocate(64);
    std::byte* data = place == 0 ? known.get() : other.get();
    rank.finish();

    const Segment in_place{filled(data, 1.0F), data, 4};
    world.allreduce({&in_place, 1}, kSumOfFloats);
    rank.finish();
    EXPECT_TRUE(four_are(data, 2.0F));
    const Segment apart{data, data + 16, 4};
    world.allreduce({&apart, 1}, kSumOfFloats);
    rank.finish();
    EXPECT_TRUE(four_are(data + 16, 4.0F));

    world.broadcast(filled(data, 3.0F + static_cast<float>(place)), 16, 1);
    rank.finish();
    EXPECT_TRUE(four_are(data, 4.0F));
    for (const auto& bytes : {Sizes{16, 16}, Sizes{16, 8}}) {
      world.allgather(data, data + 16, bytes);
      rank.finish();
      EXPECT_TRUE(four_are(data + 16, 4.0F));
    }
    world.alltoall(data, data + 16, Sizes{8, 8, 8, 8});
    rank.finish();
    EXPECT_TRUE(four_are(data + 16, 4.0F));
    for (const auto& counts : {Sizes{2, 2}, Sizes{1, 3}}) {
      world.reducescatter(data, data + 32, counts, kSumOfFloats);
      rank.finish();
      EXPECT_EQ(*reinterpret_cast<float*>(data + 32), 8.0F);
    }
    rank.lane->check();
  });
  EXPECT_EQ(ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(NcclCollective, TakesMeansOfShortFloatsWithoutLoss) {
  NcclRanks ranks(3);
  each_rank(ranks, [&](NcclRank& rank, Collective& world, int) {
    const auto data = rank.gpu->allocate(6);
    auto* numbers = reinterpret_cast<std::uint16_t*>(data.get());
    const Segment segment{numbers, numbers, 3};
    for (int i = 0; i < 3; ++i) numbers[i] = bfloat16_from(static_cast<float>(3 << i));
    world.allreduce({&segment, 1}, {DType::bfloat16, ReduceOp::sum, 1.0, 1.0, 3});
    rank.finish();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(numbers[i], bfloat16_from(static_cast<float>(3 << i)));
  });
}

TEST(NcclCollective, ScalesPartsOfDifferentLengths) {
  for (const bool float32_sums : {false, true}) {
    NcclOptions options;
    options.float32_sums = float32_sums;
    NcclRanks ranks(3, options);
    each_rank(ranks, [&](NcclRank& rank, Collective& world, int place) {
      const std::vector<std::size_t> counts{5, 0, 9};
      const auto input = rank.gpu->allocate(28);
      const auto output = rank.gpu->allocate(28);
      auto* numbers = reinterpret_cast<std::uint16_t*>(input.get());
      for (int i = 0; i < 14; ++i) numbers[i] = float16_from(static_cast<float>(i * (place + 1)));
      world.reducescatter(input.get(), output.get(), counts, {DType::float16, ReduceOp::sum, 1.0, 1.0, 3});
      rank.finish();
      const std::size_t first = place == 2 ? 5 : 0;
      for (std::size_t i = 0; i < counts[static_cast<std::size_t>(place)]; ++i) {
        EXPECT_EQ(float_from_float16(reinterpret_cast<std::uint16_t*>(output.get())[i]),
                  static_cast<float>(2 * (first + i)));
      }
    });
  }
}

TEST(NcclCollective, NamesWhicheverCallFails) {
  const std::vector<std::size_t> equal{4, 4};
  const std::vector<std::size_t> unequal{4, 8};
  const std::vector<std::size_t> all{4, 4, 4, 4};
  const std::vector<int> both{0, 1};
  const auto sum = [](Collective& world, std::byte* data, double factor) {
    const Segment segment{data, data, 1};
    world.allreduce({&segment, 1}, {DType::float32, ReduceOp::sum, factor, 1.0, 1});
  };
  using Call = std::function<void(Collective&, std::byte*)>;
  const Reduction max{DType::int32, ReduceOp::max, 1.0, 1.0, 1};
  const std::vector<std::pair<const char*, Call>> calls{
      {"ncclAllReduce", [&](Collective& world, std::byte* data) { sum(world, data, 1.0); }},
      {"ncclAllReduce", [](Collective& world, std::byte*) { world.barrier(); }},
      {"ncclRedOpCreatePreMulSum", [&](Collective& world, std::byte* data) { sum(world, data, 0.5); }},
      {"ncclBroadcast", [](Collective& world, std::byte* data) { world.broadcast(data, 4, 0); }},
      {"ncclAllGather", [&](Collective& world, std::byte* data) { world.allgather(data, data + 64, equal); }},
      {"ncclBroadcast",
       [&](Collective& world, std::byte* data) { world.allgather(data, data + 64, unequal); }},
      {"ncclSend", [&](Collective& world, std::byte* data) { world.alltoall(data, data + 64, all); }},
      {"ncclRecv", [&](Collective& world, std::byte* data) { world.alltoall(data, data + 64, all); }},
      {"ncclReduceScatter",
       [&](Collective& world, std::byte* data) { world.reducescatter(data, data + 64, equal, max); }},
      {"ncclReduce",
       [&](Collective& world, std::byte* data) { world.reducescatter(data, data + 64, unequal, max); }},
      {"ncclCommSplit", [&](Collective& world, std::byte*) { static_cast<void>(world.split(both)); }}};
  for (const auto& [name, call] : calls) {
    NcclRanks ranks(2);
    each_rank(ranks, [&, name = name, call = call](NcclRank& rank, Collective& world, int place) {
      if (place == 1) return;
      const auto data = rank.gpu->allocate(256);
      ranks.nccl.fail_call(name, 1, ncclInternalError);
      const Status status = thrown([&] { call(world, data.get()); });
      EXPECT_EQ(status.code, Code::aborted) << name;
      EXPECT_NE(status.message.find("failed: internal error"), std::string::npos) << status.message;
      EXPECT_EQ(thrown([&] { world.barrier(); }), status);
      EXPECT_TRUE(rank.lane->abort());
    });
  }
}

TEST(NcclCollective, SplitsWithoutACommunicatorForOne) {
  NcclRanks ranks(2);
  each_rank(ranks, [&](NcclRank&, Collective& world, int place) {
    const std::vector<int> last{1};
    EXPECT_EQ(world.split(last) != nullptr, place == 1);
    EXPECT_EQ(world.split({}), nullptr);
  });
  EXPECT_EQ(ranks.nccl.calls("ncclCommSplit"), 0);
}

}  // namespace
}  // namespace hora::nccl
