// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/abort_together.h"

#include "test/support/fake_gpu/nccl_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora::nccl {
namespace {

using std::chrono::milliseconds;

/// Rank 0 of two, whose other rank takes part in two communicators, but never in a collective.
struct Stuck {
  explicit Stuck(milliseconds deadline) : ranks(2, with(deadline)) {
    const NcclId ids[] = {ranks.make_id(), ranks.make_id()};
    for (int rank = 0; rank < 2; ++rank) memory[rank] = ranks.at(rank).context.memory->allocate(100, false);
    run_ranks(2, [&](int rank) {
      for (const NcclId& id : ids) {
        auto made = std::make_shared<Communicator>(ranks.at(rank).context);
        made->init(id, rank, 2);
        if (id == ids[0]) made->meet(memory[rank].get());
        (rank == 0 ? communicators : others).push_back(std::move(made));
      }
    });
    data = ranks.at(0).gpu->allocate(4);
    for (auto& each : communicators) {
      each->run("ncclAllReduce", [&](ncclComm_t native) {
        return ::ncclAllReduce(data.get(), data.get(), 1, ncclInt32, ncclSum, native,
                               ranks.at(0).cuda_stream().handle());
      });
    }
  }
  static NcclOptions with(milliseconds deadline) {
    NcclOptions options;
    options.abort_timeout = deadline;
    return options;
  }

  NcclRanks ranks;
  std::shared_ptr<std::byte> memory[2];  ///< that the first communicator knows
  std::shared_ptr<std::byte> data;
  std::vector<std::shared_ptr<Communicator>> communicators;
  std::vector<std::shared_ptr<Communicator>> others;
};

TEST(AbortTogether, EndsWhatWaitsForAnotherRank) {
  Stuck job(milliseconds(60'000));
  EXPECT_EQ(job.ranks.nccl.under_way(), 2);
  EXPECT_TRUE(abort_together(job.ranks.at(0).context, job.communicators));
  job.ranks.at(0).finish();
  EXPECT_EQ(job.communicators[0]->native(), nullptr);
  EXPECT_EQ(job.ranks.nccl.usage().communicators, 2);  // the other rank's
  EXPECT_EQ(job.ranks.nccl.misuses(), std::vector<std::string>{});
}

TEST(AbortTogether, GoesOnWithoutAGroup) {
  Stuck job(milliseconds(60'000));
  job.ranks.nccl.fail_call("ncclGroupStart", 1, ncclInternalError);
  EXPECT_TRUE(abort_together(job.ranks.at(0).context, job.communicators));
  job.ranks.at(0).finish();
}

TEST(AbortTogether, LeavesNcclToItselfWhenItDoesNotReturn) {
  Stuck job(milliseconds(30));
  job.ranks.nccl.hold_aborts(true);
  EXPECT_FALSE(abort_together(job.ranks.at(0).context, job.communicators));
  EXPECT_EQ(job.ranks.nccl.held_aborts(), 1);
  job.communicators.clear();
  job.memory[0].reset();
  EXPECT_EQ(job.ranks.nccl.usage().blocks, 2);
  job.ranks.nccl.hold_aborts(false);
  while (job.ranks.nccl.usage().blocks == 2) std::this_thread::yield();  // when it returns after all
}

TEST(AbortTogether, HasNothingToDoForNobody) {
  NcclRanks ranks(1);
  EXPECT_TRUE(abort_together(ranks.at(0).context, {}));
  EXPECT_EQ(ranks.nccl.calls("ncclGroupStart"), 0);
}

}  // namespace
}  // namespace hora::nccl
