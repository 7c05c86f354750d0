// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/lane_communicators.h"

#include "test/support/fake_gpu/nccl_ranks.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora::nccl {
namespace {

using std::chrono::milliseconds;

TEST(LaneCommunicators, KeepsWhatFailedUntilAllAreAborted) {
  NcclRanks ranks(1);
  LaneCommunicators lane(ranks.at(0).context, ranks.at(0).cuda_stream());
  const auto world = lane.connect(ranks.make_id(), 0, 1);
  const auto other = lane.connect(ranks.make_id(), 0, 1);
  ranks.nccl.fail_call("ncclCommFinalize", 1, ncclInternalError);
  lane.close(world);
  lane.close(other);  // goes with the first
  EXPECT_EQ(ranks.nccl.usage().communicators, 2);
  EXPECT_TRUE(lane.abort());
  EXPECT_TRUE(lane.abort());
  EXPECT_EQ(ranks.nccl.calls("ncclCommAbort"), 2);
  EXPECT_EQ(ranks.nccl.usage().communicators, 0);
}

TEST(LaneCommunicators, EndsACommunicatorWhenItsWorkIsDone) {
  NcclRanks ranks(1);
  LaneCommunicators lane(ranks.at(0).context, ranks.at(0).cuda_stream());
  const auto world = lane.connect(ranks.make_id(), 0, 1);
  const auto data = lane.context().memory->allocate(4, false);
  ranks.driver.hold(0);
  world->run("ncclBroadcast", [&](ncclComm_t native) {
    return ::ncclBroadcast(data.get(), data.get(), 4, ncclUint8, 0, native, lane.native_stream());
  });
  const std::jthread gpu([&] { ranks.driver.release(0); });
  lane.close(world);
  EXPECT_EQ(ranks.nccl.usage().communicators, 0);
  EXPECT_EQ(ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(LaneCommunicators, GivesUpOnAGpuThatDoesNotEnd) {
  NcclRanks ranks(2);
  const NcclId id = ranks.make_id();
  run_ranks(2, [&](int rank) {
    LaneCommunicators lane(ranks.at(rank).context, ranks.at(rank).cuda_stream());
    const auto world = lane.connect(id, rank, 2);
    if (rank == 1) return lane.close(world);
    const auto data = ranks.at(0).gpu->allocate(4);
    world->run("ncclAllReduce", [&](ncclComm_t native) {
      return ::ncclAllReduce(data.get(), data.get(), 1, ncclInt32, ncclSum, native, lane.native_stream());
    });
    NcclContext hasty = ranks.at(0).context;
    hasty.options.call_timeout = milliseconds(20);
    LaneCommunicators other(hasty, ranks.at(0).cuda_stream());
    const Status status = thrown([&] { other.split(*world, 0, 2); });
    EXPECT_EQ(status.code, Code::timeout);
    EXPECT_EQ(status.message.find("what is on cuda:0 before ncclCommSplit has not come to an end"), 0U)
        << status.message;
    EXPECT_TRUE(lane.abort());
  });
}

TEST(LaneCommunicators, FreesMemoryWhenTheStreamHasLeftIt) {
  NcclRanks ranks(1, {}, kNcclWithMemory);  // later ones keep it in a window
  LaneCommunicators lane(ranks.at(0).context, ranks.at(0).cuda_stream());
  const auto world = lane.connect(ranks.make_id(), 0, 1);
  auto data = lane.context().memory->allocate(4, false);
  world->meet(data.get());
  ranks.driver.hold(0);
  lane.stream().set_bytes(data.get(), std::byte{0}, 4);
  data.reset();
  lane.begin();
  EXPECT_EQ(ranks.nccl.usage().registrations, 0);
  EXPECT_EQ(ranks.nccl.usage().blocks, 1);
  ranks.driver.release(0);
  ranks.at(0).finish();
  lane.begin();
  EXPECT_EQ(ranks.nccl.usage().blocks, 0);
  lane.close(world);
}

TEST(LaneCommunicators, FreesMemoryAlsoWhenNothingIsCalledAnyMore) {
  NcclRanks ranks(1);
  LaneCommunicators lane(ranks.at(0).context, ranks.at(0).cuda_stream());
  const auto world = lane.connect(ranks.make_id(), 0, 1);
  auto data = lane.context().memory->allocate(4, true);
  world->meet(data.get());
  data.reset();
  lane.check();
  ranks.at(0).finish();
  lane.check();
  EXPECT_EQ(ranks.nccl.usage().registrations, 0);
  EXPECT_EQ(ranks.nccl.usage().blocks, 0);
  lane.close(world);
}

TEST(LaneCommunicators, KeepsItsOwnMemoryWhenNcclDoesNotLetGo) {
  NcclOptions options;
  options.abort_timeout = milliseconds(20);
  NcclRanks ranks(1, options);
  {
    LaneCommunicators lane(ranks.at(0).context, ranks.at(0).cuda_stream());
    static_cast<void>(lane.connect(ranks.make_id(), 0, 1));
    const std::byte* first = lane.scratch(1000);
    EXPECT_EQ(lane.scratch(500), first);
    static_cast<void>(lane.word());
    ranks.nccl.hold_aborts(true);
    EXPECT_FALSE(lane.abort());
    EXPECT_FALSE(lane.abort());
  }
  EXPECT_EQ(ranks.driver.usage(0).blocks, 3U);  // and NCCL's own
}

}  // namespace
}  // namespace hora::nccl
