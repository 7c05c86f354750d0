// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/rounds.h"

#include "test/core/backend/shm/arenas.h"
#include "test/support/threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::shm {
namespace {

TEST(Rounds, MailboxesAreSeenByAllAndAlternate) {
  const auto arenas = make_arenas(3);
  run_ranks(3, [&](int rank) {
    Rounds rounds(Communicator(arenas[static_cast<std::size_t>(rank)], rank, 3));
    for (std::uint64_t call = 0; call < 300; ++call) {
      rounds.open(Call::allreduce, 4, 0).inputs[0] = {call * 10 + static_cast<std::uint64_t>(rank), 1};
      rounds.meet();
      for (int other = 0; other < 3; ++other) {
        ASSERT_EQ(rounds.mailbox(other).inputs[0].where, call * 10 + static_cast<std::uint64_t>(other));
      }
    }
  });
}

TEST(Rounds, RanksThatMeanDifferentCallsAreToldSo) {
  const auto arenas = make_arenas(2);
  run_ranks(2, [&](int rank) {
    Rounds rounds(Communicator(arenas[static_cast<std::size_t>(rank)], rank, 2));
    rounds.open(rank == 0 ? Call::allreduce : Call::broadcast, 16, 2);
    try {
      rounds.meet();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::internal);
      EXPECT_THAT(error.what(), testing::HasSubstr("broadcast of 16 bytes"));
      EXPECT_THAT(error.what(), testing::HasSubstr("allreduce of 16 bytes"));
    }
  });
}

}  // namespace
}  // namespace hora::shm
