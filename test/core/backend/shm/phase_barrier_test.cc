// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/phase_barrier.h"

#include "test/core/backend/shm/arenas.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora::shm {
namespace {

TEST(PhaseBarrier, OfSomeRanksTellsTheCoresThatARankHasToldAllOfThem) {
  const auto arenas = make_arenas(2);
  const PhaseBarrier all(Communicator(arenas[1], 1, 2));
  arenas[1]->block(1).cores.quota = 77;  // as if this thread ran on others than the one before
  const int members[] = {1};
  const auto block = arenas[1]->take_block();
  const std::uint64_t offsets[] = {arenas[1]->offset_of(*block)};
  const Communicator some(arenas[1], 0, members, offsets);
  const PhaseBarrier barrier(some);
  EXPECT_EQ(some.own_block().cores.quota, 77u);
  EXPECT_EQ(some.own_block().cores.cores[0], arenas[1]->block(1).cores.cores[0]);
}

TEST(PhaseBarrier, NobodyIsAheadByMoreThanAPhaseAndAllSeeWhatWasWritten) {
  for (const int ranks : {1, 2, 3, 8}) {
    const auto arenas = make_arenas(ranks);
    std::vector<int> words(static_cast<std::size_t>(ranks));  // each written by its rank, read by all
    run_ranks(ranks, [&](int rank) {
      PhaseBarrier barrier(Communicator(arenas[static_cast<std::size_t>(rank)], rank, ranks));
      for (int phase = 0; phase < 500; ++phase) {
        words[static_cast<std::size_t>(rank)] = phase;
        barrier.arrive();
        barrier.await_all();
        for (const int word : words) ASSERT_EQ(word, phase);
        barrier.arrive();
        barrier.await_all();
      }
    });
  }
}

TEST(PhaseBarrier, AbortWakesASleeperAndStays) {
  const auto arenas = make_arenas(2);
  PhaseBarrier barrier(Communicator(arenas[0], 0, 2));
  std::thread other([&] { barrier.abort({Code::aborted, "rank 1 is gone"}); });
  barrier.arrive();
  for (int i = 0; i < 2; ++i) {
    try {
      barrier.await_all();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), (Status{Code::aborted, "rank 1 is gone"}));
    }
  }
  other.join();
}

TEST(PhaseBarrier, TheFirstAbortCounts) {
  const auto arenas = make_arenas(2);
  PhaseBarrier barrier(Communicator(arenas[0], 0, 2));
  barrier.abort({Code::aborted, "first"});
  barrier.abort({Code::aborted, "second"});
  try {
    barrier.throw_if_aborted();
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
}

}  // namespace
}  // namespace hora::shm
