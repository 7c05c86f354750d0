// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/memory.h"

#include "test/support/fake_gpu/nccl_ranks.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace hora::nccl {
namespace {

TEST(NcclMemory, IsZeroedAlignedAndFreed) {
  NcclRanks ranks(1);
  const auto& memory = ranks.at(0).context.memory;
  auto data = memory->allocate(1000, true);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data.get()) % 256, 0U);
  EXPECT_TRUE(
      std::all_of(data.get(), data.get() + 1000, [](std::byte each) { return each == std::byte{0}; }));
  EXPECT_EQ(ranks.at(0).gpu->memory().taken, std::size_t{2} << 20) << "NCCL takes no less";
  EXPECT_EQ(ranks.at(0).gpu->memory().taken, ranks.driver.usage(0).bytes);
  EXPECT_EQ(ranks.nccl.usage().blocks, 1);
  EXPECT_NE(memory->allocate(0, true), nullptr);
  data.reset();
  EXPECT_EQ(ranks.nccl.usage().blocks, 0);
  EXPECT_EQ(ranks.at(0).gpu->memory().taken, 0U);
}

TEST(NcclMemory, IsTheGpusOwnWhereNcclHasNone) {
  NcclRanks ranks(1, {}, kOldestNccl);
  const auto& memory = ranks.at(0).context.memory;
  const auto data = memory->allocate(1000, true);
  EXPECT_EQ(ranks.nccl.usage().blocks, 0);
  EXPECT_EQ(ranks.at(0).gpu->memory().taken, 1024U);
  EXPECT_NE(memory->find(data.get()), nullptr);
}

TEST(NcclMemory, KnowsWhatLiesInIt) {
  NcclRanks ranks(1);
  const auto& memory = ranks.at(0).context.memory;
  auto data = memory->allocate(512, false);
  const auto other = memory->allocate(512, false);
  std::byte* const begin = data.get();
  EXPECT_EQ(memory->find(begin), memory->find(begin + 511));
  EXPECT_NE(memory->find(begin), memory->find(other.get()));
  EXPECT_EQ(memory->find(nullptr), nullptr);
  data.reset();
  EXPECT_EQ(memory->find(begin), nullptr);
}

TEST(NcclMemory, HasSymmetricAddressesThatAreEqualOnRanksThatAllocateAlike) {
  NcclRanks ranks(2);
  std::vector<std::vector<std::shared_ptr<std::byte>>> data;
  for (int rank = 0; rank < 2; ++rank) {
    const auto& memory = ranks.at(rank).context.memory;
    data.push_back({memory->allocate(1000, true), memory->allocate(1000, true)});
    if (rank == 0) data.back().push_back(memory->allocate(1000, false));  // what only one rank has
    data.back().push_back(memory->allocate(1000, true));
  }
  const auto address = [&](int rank, const std::byte* at) {
    return ranks.at(rank).context.memory->symmetric_address(at);
  };
  EXPECT_NE(address(0, data[0][0].get()), 0U);
  EXPECT_EQ(address(0, data[0][0].get() + 128), address(1, data[1][0].get() + 128));
  EXPECT_EQ(address(0, data[0].back().get()), address(1, data[1].back().get()));
  EXPECT_EQ(address(0, data[0][2].get()), 0U);
}

TEST(NcclMemory, HasNeighbouringSymmetricAddressesWithinOneAllocationOnly) {
  NcclRanks ranks(1);
  const auto& memory = ranks.at(0).context.memory;
  const auto one = memory->allocate(256, true);
  const auto other = memory->allocate(256, true);
  const std::uint64_t first = memory->symmetric_address(one.get());
  EXPECT_EQ(memory->symmetric_address(one.get() + 192), first + 192);
  EXPECT_EQ(memory->symmetric_address(one.get() + 32), 0U);
  EXPECT_GT(memory->symmetric_address(other.get()), first + 256 + 64);
}

TEST(NcclMemory, SaysHowMuchThereIsWhereItIsNotEnough) {
  NcclRanks ranks(1);
  const Status status =
      thrown([&] { static_cast<void>(ranks.at(0).context.memory->allocate(std::size_t{2} << 30, true)); });
  EXPECT_EQ(status.code, Code::unavailable);
  EXPECT_NE(status.message.find(
                "cannot take 2147483648 bytes of the memory of cuda:0, of which 1073741824 are free"),
            std::string::npos)
      << status.message;
}

TEST(NcclMemory, IsGivenBackIfItCannotBeCleared) {
  NcclRanks ranks(1);
  ranks.driver.fail_call("cuMemsetD8Async", 1, CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(thrown([&] { static_cast<void>(ranks.at(0).context.memory->allocate(100, true)); }).code,
            Code::internal);
  EXPECT_EQ(ranks.nccl.usage().blocks, 0);
  EXPECT_EQ(ranks.at(0).gpu->memory().taken, 0U);
}

TEST(NcclMemory, WaitsForUsersStreamsBeforeItIsFreed) {
  NcclRanks ranks(1);
  auto data = ranks.at(0).context.memory->allocate(100, true);
  ranks.driver.hold(0);
  ranks.at(0).stream->set_bytes(data.get(), std::byte{0}, 100);
  std::thread user([&] { data.reset(); });
  while (ranks.driver.calls("cuCtxSynchronize") == 0) std::this_thread::yield();
  EXPECT_EQ(ranks.nccl.usage().blocks, 1);
  ranks.driver.release(0);
  user.join();
  EXPECT_EQ(ranks.nccl.usage().blocks, 0);
}

TEST(NcclMemory, IsFreedWhenACaptureIsOver) {
  for (const bool allocates : {false, true}) {
    NcclRanks ranks(1);
    const auto& memory = ranks.at(0).context.memory;
    auto data = memory->allocate(100, true);
    auto other = memory->allocate(100, true);
    const CUstream captured = ranks.driver.make_stream(0);
    ranks.driver.capture(captured, true);
    data.reset();
    EXPECT_EQ(ranks.nccl.usage().blocks, 2);
    ranks.driver.capture(captured, false);
    if (allocates) {
      static_cast<void>(memory->allocate(100, true));
    } else {
      other.reset();
    }
    EXPECT_EQ(ranks.nccl.usage().blocks, allocates ? 1 : 0);
  }
}

TEST(NcclMemory, IsKeptForEverIfACaptureIsNeverOver) {
  NcclRanks ranks(1);
  auto memory =
      std::make_shared<NcclMemory>(std::make_shared<const OpenNccl>(*ranks.opened), ranks.at(0).gpu);
  auto data = memory->allocate(100, true);
  const CUstream captured = ranks.driver.make_stream(0);
  ranks.driver.capture(captured, true);
  memory.reset();
  data.reset();
  EXPECT_EQ(ranks.nccl.usage().blocks, 1);
}

TEST(NcclMemory, IsKeptAndNobodyWaitsWhenNcclDoesNotLetGo) {
  NcclRanks ranks(1);
  auto& memory = ranks.at(0).context.memory;
  auto data = memory->allocate(100, true);
  memory->abandon();
  ranks.driver.hold(0);
  ranks.at(0).stream->set_bytes(data.get(), std::byte{0}, 100);
  data.reset();
  EXPECT_EQ(ranks.nccl.usage().blocks, 1);
  ranks.driver.release(0);
  ranks.at(0).finish();
}

}  // namespace
}  // namespace hora::nccl
