// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/nccl_lane.h"

#include "core/backend/nccl/lane_communicators.h"
#include "test/support/fake_gpu/nccl_ranks.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora::nccl {
namespace {

using std::chrono::milliseconds;

const Reduction kSum{DType::int32, ReduceOp::sum, 1.0, 1.0, 1};

TEST(NcclLane, EndsACollectiveWhosePeerHasDied) {
  NcclRanks ranks(2);
  const NcclId id = ranks.make_id();
  run_ranks(2, [&](int place) {
    NcclRank& rank = ranks.at(place);
    const auto world = rank.lane->connect(id, place, 2);
    if (place == 1) return;  // leaves
    const auto data = rank.gpu->allocate(4);
    const Segment segment{data.get(), data.get(), 1};
    world->allreduce({&segment, 1}, kSum);
    const auto event = rank.stream->mark();
    const Status why{Code::aborted, "rank 1 is gone"};
    world->abort(why);
    EXPECT_EQ(thrown([&] { world->barrier(); }), why);
    EXPECT_TRUE(rank.lane->abort());
    await(event.get(), [] {});
    EXPECT_EQ(thrown([&] { rank.lane->check(); }), why);
    EXPECT_EQ(thrown([&] { static_cast<void>(rank.lane->connect(id, 0, 2)); }), why);
  });
  EXPECT_EQ(ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(NcclLane, StopsAConnectThatNobodyAnswers) {
  NcclRanks ranks(2);
  const Status why{Code::aborted, "rank 1 is gone"};
  const std::jthread control([&] {
    while (ranks.nccl.calls("ncclCommInitRankConfig") == 0) std::this_thread::yield();
    ranks.at(0).lane->stop(why);
  });
  EXPECT_EQ(thrown([&] { static_cast<void>(ranks.at(0).lane->connect(ranks.make_id(), 0, 2)); }), why);
  EXPECT_TRUE(ranks.at(0).lane->abort());
  EXPECT_EQ(ranks.nccl.usage().communicators, 0);
}

TEST(NcclLane, SaysInTimeThatNcclDoesNotReturnFromAnAbort) {
  NcclOptions options;
  options.abort_timeout = milliseconds(30);
  NcclRanks ranks(1, options);
  const auto id = ranks.make_id();
  NcclRank& rank = ranks.at(0);
  LaneCommunicators communicators(rank.context, rank.cuda_stream());
  static_cast<void>(communicators.connect(id, 0, 1));
  ranks.nccl.hold_aborts(true);
  EXPECT_FALSE(communicators.abort());
  ranks.nccl.hold_aborts(false);
}

TEST(NcclLane, MakesNoCommunicatorForOneRank) {
  NcclRanks ranks(1);
  NcclRank& rank = ranks.at(0);
  {
    const auto alone = rank.lane->connect(NcclId{}, 0, 1);
    const auto data = rank.gpu->allocate(8);
    const Segment segment{data.get(), data.get() + 4, 1};
    *reinterpret_cast<int*>(data.get()) = 7;
    alone->allreduce({&segment, 1}, kSum);
    alone->barrier();
    rank.finish();
    EXPECT_EQ(*reinterpret_cast<int*>(data.get() + 4), 7);
  }
  EXPECT_EQ(ranks.nccl.calls("ncclCommInitRankConfig"), 0);
}

TEST(NcclLane, FindsAFailureOfAnyOfItsCommunicators) {
  NcclRanks ranks(2);
  const NcclId id = ranks.make_id();
  run_ranks(2, [&](int place) {
    const auto world = ranks.at(place).lane->connect(id, place, 2);
    ranks.at(place).lane->check();
    if (place == 0) {
      ranks.nccl.fail_communicators(0, ncclRemoteError);
      EXPECT_EQ(thrown([&] { ranks.at(0).lane->check(); }).code, Code::aborted);
    }
  });
  EXPECT_TRUE(ranks.at(0).lane->abort());
}

TEST(NcclLane, CountsTheMemoryThatNcclTakes) {
  NcclRanks ranks(2);
  const NcclId id = ranks.make_id();
  run_ranks(2, [&](int place) {
    const auto world = ranks.at(place).lane->connect(id, place, 2);
    EXPECT_EQ(ranks.at(place).gpu->memory().nccl, std::size_t{1} << 20);
  });
  EXPECT_EQ(ranks.at(0).gpu->memory().nccl, 0U);
}

}  // namespace
}  // namespace hora::nccl
