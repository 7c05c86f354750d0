// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/communicator.h"

#include "test/support/fake_gpu/nccl_ranks.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora::nccl {
namespace {

using std::chrono::milliseconds;

/// A communicator of all ranks, one for each.
struct Connected {
  explicit Connected(int count, const NcclOptions& options = {}, int version = fake_nccl_version())
      : ranks(count, options, version) {
    for (auto& rank : ranks.ranks) all.push_back(std::make_unique<Communicator>(rank.context));
    const NcclId id = ranks.make_id();
    run_ranks(count, [&](int rank) { at(rank).init(id, rank, count); });
  }
  Communicator& at(int rank) { return *all.at(static_cast<std::size_t>(rank)); }
  ncclResult_t sum(int rank, ncclComm_t native, std::byte* data) {
    return ::ncclAllReduce(data, data, 1, ncclInt32, ncclSum, native, ranks.at(rank).cuda_stream().handle());
  }

  NcclRanks ranks;
  std::vector<std::unique_ptr<Communicator>> all;
};

TEST(Communicator, CarriesOutAndEnds) {
  Connected job(2);
  job.ranks.nccl.set_polls(5);
  run_ranks(2, [&](int rank) {
    const auto data = job.ranks.at(rank).gpu->allocate(4);
    *reinterpret_cast<int*>(data.get()) = rank + 1;
    job.at(rank).run("ncclAllReduce", [&](ncclComm_t native) { return job.sum(rank, native, data.get()); });
    job.ranks.at(rank).finish();
    EXPECT_EQ(*reinterpret_cast<int*>(data.get()), 3);
    EXPECT_TRUE(job.at(rank).close());
  });
  EXPECT_EQ(job.ranks.nccl.usage(), FakeNcclUsage{});
  EXPECT_EQ(job.ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(Communicator, GivesUpWhereARankNeverComes) {
  NcclOptions options;
  options.call_timeout = milliseconds(20);
  NcclRanks ranks(2, options);
  Communicator alone(ranks.at(0).context);
  const Status status = thrown([&] { alone.init(ranks.make_id(), 0, 2); });
  EXPECT_EQ(status.code, Code::timeout);
  EXPECT_EQ(
      status.message.find("ncclCommInitRankConfig (rank 0 of 2, on cuda:0) has not come to an end after"), 0U)
      << status.message;
  EXPECT_EQ(thrown([&] { alone.run("ncclAllReduce", {}); }), status);
  EXPECT_EQ(ranks.nccl.usage().communicators, 1);  // until it is aborted
}

TEST(Communicator, StopsWaitingWhenARankIsGone) {
  NcclRanks ranks(2);
  Communicator alone(ranks.at(0).context);
  const Status why{Code::aborted, "rank 1 is gone"};
  std::jthread control([&] {
    while (ranks.nccl.calls("ncclCommGetAsyncError") == 0) std::this_thread::yield();
    ranks.at(0).context.stop_flag->set(why);
  });
  EXPECT_EQ(thrown([&] { alone.init(ranks.make_id(), 0, 2); }), why);
}

TEST(Communicator, SaysThatTwoRanksShareAGpu) {
  NcclRanks ranks(1);
  NcclContext other = ranks.at(0).context;
  other.stop_flag = std::make_shared<StopFlag>();
  Communicator first(ranks.at(0).context);
  Communicator second(other);
  const NcclId id = ranks.make_id();
  run_ranks(2, [&](int rank) {
    const Status status = thrown([&] { (rank == 0 ? first : second).init(id, rank, 2); });
    EXPECT_EQ(status.code, Code::aborted);
    EXPECT_NE(status.message.find("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 0"),
              std::string::npos)
        << status.message;
  });
}

TEST(Communicator, SplitsInTheOrderOfPlaces) {
  Connected job(3);
  run_ranks(3, [&](int rank) {
    // Members 2 and 0, in this order; 1 is none.
    const int place = rank == 2 ? 0 : rank == 0 ? 1 : -1;
    Communicator part(job.ranks.at(rank).context);
    part.split_from(job.at(rank), place, 2);
    EXPECT_EQ(part.native() != nullptr, place >= 0);
    if (place >= 0) {
      const auto data = job.ranks.at(rank).gpu->allocate(4);
      *reinterpret_cast<int*>(data.get()) = 10 + rank;
      part.run("ncclBroadcast", [&](ncclComm_t native) {
        return ::ncclBroadcast(data.get(), data.get(), 4, ncclUint8, 0, native,
                               job.ranks.at(rank).cuda_stream().handle());
      });
      job.ranks.at(rank).finish();
      EXPECT_EQ(*reinterpret_cast<int*>(data.get()), 12);
    }
    EXPECT_TRUE(part.close());
    EXPECT_TRUE(job.at(rank).close());
  });
  EXPECT_EQ(job.ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(Communicator, IsReadyForTheNextCallAfterASplitThatItIsNoMemberOf) {
  Connected job(3);
  job.ranks.nccl.set_polls(50);
  run_ranks(3, [&](int rank) {
    Communicator part(job.ranks.at(rank).context);
    part.split_from(job.at(rank), rank == 2 ? -1 : rank, 2);
    const auto data = job.ranks.at(rank).gpu->allocate(4);
    *reinterpret_cast<int*>(data.get()) = rank + 1;
    job.at(rank).run("ncclAllReduce", [&](ncclComm_t native) { return job.sum(rank, native, data.get()); });
    job.ranks.at(rank).finish();
    EXPECT_EQ(*reinterpret_cast<int*>(data.get()), 6);
    EXPECT_TRUE(part.close());
    EXPECT_TRUE(job.at(rank).close());
  });
  EXPECT_EQ(job.ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(Communicator, StopsWaitingForASplitWhenARankIsGone) {
  Connected job(2);
  Communicator part(job.ranks.at(0).context);
  const Status why{Code::aborted, "rank 1 is gone"};
  std::jthread control([&] {
    while (job.ranks.nccl.calls("ncclCommSplit") == 0) std::this_thread::yield();
    job.ranks.at(0).context.stop_flag->set(why);
  });
  EXPECT_EQ(thrown([&] { part.split_from(job.at(0), 0, 1); }), why);
  EXPECT_EQ(part.native(), nullptr);
}

TEST(Communicator, NamesTheCallThatFails) {
  for (const char* call : {"ncclCommInitRankConfig", "ncclCommGetAsyncError"}) {
    NcclRanks ranks(1);
    ranks.nccl.fail_call(call, 1, ncclSystemError);
    Communicator alone(ranks.at(0).context);
    const Status status = thrown([&] { alone.init(ranks.make_id(), 0, 1); });
    EXPECT_EQ(status.code, Code::aborted);
    EXPECT_EQ(status.message,
              "ncclCommInitRankConfig (rank 0 of 1, on cuda:0) failed: unhandled system error (" +
                  std::string(call) + " was told to fail); NCCL_DEBUG=WARN makes NCCL say more");
    EXPECT_EQ(thrown([&] { ranks.at(0).context.stop_flag->check(); }), status);
  }
}

TEST(Communicator, FailsWithWhicheverCallOfAGroupFails) {
  for (const char* call : {"ncclGroupStart", "ncclGroupEnd", "ncclAllReduce"}) {
    Connected job(1);
    job.ranks.nccl.fail_call(call, 1, ncclInternalError);
    const auto data = job.ranks.at(0).gpu->allocate(4);
    const Status status = thrown([&] {
      job.at(0).run_group("ncclAllReduce", [&](ncclComm_t native, const Communicator::Take& take) {
        take(job.sum(0, native, data.get()));
      });
    });
    EXPECT_EQ(status.message.find(std::string(call) + " (rank 0 of 1, on cuda:0) failed: internal error"), 0U)
        << status.message;
    EXPECT_EQ(job.ranks.nccl.under_way(), 0);
  }
}

TEST(Communicator, IsNotEndedByACallThatFails) {
  for (const char* call : {"ncclCommFinalize", "ncclCommDestroy", "ncclRedOpDestroy", "ncclCommDeregister"}) {
    Connected job(1);
    const auto data = job.ranks.at(0).context.memory->allocate(4, true);
    job.at(0).meet(data.get());
    static_cast<void>(job.at(0).multiplied_sum(ncclFloat32, 0.5));
    job.ranks.nccl.fail_call(call, 1, ncclInternalError);
    EXPECT_FALSE(job.at(0).close()) << call;
    EXPECT_TRUE(job.ranks.at(0).context.stop_flag->is_set());
    EXPECT_EQ(job.ranks.nccl.usage().communicators, 1);
  }
}

TEST(Communicator, LeavesItselfToNcclWhereOtherRanksOfTheHostStay) {
  NcclOptions options;
  options.destroy_timeout = milliseconds(20);
  Connected job(1, options);
  job.ranks.nccl.hold_destroys(true);
  EXPECT_TRUE(job.at(0).close());
  EXPECT_EQ(job.at(0).native(), nullptr);
  EXPECT_FALSE(job.ranks.at(0).context.stop_flag->is_set());
  EXPECT_EQ(job.ranks.nccl.usage().communicators, 1);
  EXPECT_GT(job.ranks.at(0).gpu->memory().nccl, 0U);
}

TEST(Communicator, FindsOutWhatFailsMeanwhile) {
  Connected job(1);
  job.at(0).check();
  job.ranks.nccl.fail_communicators(0, ncclRemoteError);
  const Status status = thrown([&] { job.at(0).check(); });
  EXPECT_EQ(status.code, Code::aborted);
  EXPECT_NE(status.message.find("remote process exited or there was a network error"), std::string::npos);
}

TEST(Communicator, FailsWhereRanksDoNotAgree) {
  Connected job(2);
  run_ranks(2, [&](int rank) {
    const auto data = job.ranks.at(rank).gpu->allocate(100);
    job.at(rank).run("ncclAllReduce", [&](ncclComm_t native) {
      return ::ncclAllReduce(data.get(), data.get(), rank == 0 ? 10 : 20, ncclInt32, ncclSum, native,
                             job.ranks.at(rank).cuda_stream().handle());
    });
    job.ranks.at(rank).finish();
    EXPECT_EQ(thrown([&] { job.at(rank).check(); }).code, Code::aborted);
  });
}

TEST(Communicator, KeepsAFewOperations) {
  Connected job(1);
  const ncclRedOp_t first = job.at(0).multiplied_sum(ncclFloat32, 1.0);
  EXPECT_EQ(job.at(0).multiplied_sum(ncclFloat32, 1.0), first);
  for (int i = 2; i <= 40; ++i) static_cast<void>(job.at(0).multiplied_sum(ncclFloat32, i));
  EXPECT_EQ(job.ranks.nccl.usage().operations, 16);
  EXPECT_TRUE(job.at(0).close());
  EXPECT_EQ(job.ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(Communicator, TellsNcclOfMemoryOnceAndForgetsWhatNobodyHas) {
  Connected job(1);
  const auto& memory = job.ranks.at(0).context.memory;
  auto one = memory->allocate(1000, true);
  const auto other = memory->allocate(1000, true);
  for (const auto* data : {one.get(), one.get() + 512, other.get()}) job.at(0).meet(data);
  const int unknown = 0;
  job.at(0).meet(&unknown);
  EXPECT_EQ(job.ranks.nccl.usage().registrations, 2);
  one.reset();
  EXPECT_EQ(job.ranks.nccl.usage().blocks, 2);  // NCCL knows of it
  std::vector<std::shared_ptr<NcclBlock>> parted;
  job.at(0).part(parted);
  EXPECT_EQ(parted.size(), 1U);
  EXPECT_EQ(job.ranks.nccl.usage().registrations, 1);
  parted.clear();
  EXPECT_EQ(job.ranks.nccl.usage().blocks, 1);
  EXPECT_TRUE(job.at(0).close());
  EXPECT_EQ(job.ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(Communicator, MakesWindowsOfBuffersWhichStayUntilItEnds) {
  Connected job(2, {}, kNcclWithWindows);
  job.ranks.nccl.set_polls(5);
  run_ranks(2, [&](int rank) {
    const auto& memory = job.ranks.at(rank).context.memory;
    auto first = memory->allocate(1000, false);
    job.at(rank).meet(first.get());
    if (rank == 0) first.reset();  // on other ranks later: the windows must not move
    std::vector<std::shared_ptr<NcclBlock>> parted;
    job.at(rank).part(parted);
    EXPECT_EQ(parted.size(), 0U);
    const auto second = memory->allocate(2000, false);
    const auto user = memory->allocate(2000, true);
    for (const auto* data : {second.get(), user.get()}) job.at(rank).meet(data);
  });
  EXPECT_EQ(job.ranks.nccl.usage().windows, 4);
  EXPECT_EQ(job.ranks.nccl.usage().registrations, 6);
  run_ranks(2, [&](int rank) { EXPECT_TRUE(job.at(rank).close()); });
  EXPECT_EQ(job.ranks.nccl.usage(), FakeNcclUsage{});
  EXPECT_EQ(job.ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(Communicator, RegistersBuffersWhereNcclMakesNoWindows) {
  Connected job(1, {}, kNcclWithWindows);
  job.ranks.nccl.set_windows(false);
  const auto data = job.ranks.at(0).context.memory->allocate(1000, false);
  job.at(0).meet(data.get());
  EXPECT_EQ(job.ranks.nccl.usage().windows, 0);
  EXPECT_EQ(job.ranks.nccl.usage().registrations, 1);
  EXPECT_TRUE(job.at(0).close());
  EXPECT_EQ(job.ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(Communicator, GivesUpOnAWindowWhenARankIsGone) {
  Connected job(2, {}, kNcclWithWindows);
  const auto data = job.ranks.at(0).context.memory->allocate(1000, false);
  const Status why{Code::aborted, "rank 1 is gone"};
  const std::jthread control([&] {
    while (job.ranks.nccl.calls("ncclCommWindowRegister") == 0) std::this_thread::yield();
    job.ranks.at(0).context.stop_flag->set(why);
  });
  EXPECT_EQ(thrown([&] { job.at(0).meet(data.get()); }), why);
}

TEST(Communicator, FailsWhereThisRanksMemoryAloneCannotBeRegistered) {
  Connected job(1);
  job.ranks.nccl.fail_call("ncclCommRegister", 1, ncclInvalidUsage);
  const auto data = job.ranks.at(0).context.memory->allocate(1000, true);
  const Status status = thrown([&] { job.at(0).meet(data.get()); });
  EXPECT_EQ(status.code, Code::aborted);
  EXPECT_EQ(status.message.find("ncclCommRegister (rank 0 of 1, on cuda:0) failed: invalid usage"), 0U)
      << status.message;
}

}  // namespace
}  // namespace hora::nccl
