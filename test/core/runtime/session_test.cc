// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/session.h"

#include "core/backend/local/local_group.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

Entry barrier_of(const std::string& name) {
  Entry entry;
  entry.operation = Operation::barrier;
  entry.name = name;
  return entry;
}

TEST(Session, EndsItsOperationsWithACodeThatTellsWhetherTheJobGoesOn) {
  for (const bool goes_on : {false, true}) {
    local::LocalGroup group(2);
    run_ranks(2, [&](int rank) {
      Lasting lasting(0, nullptr);
      Session session(group.join(rank), {}, lasting, goes_on);
      if (rank == 1) return session.leave("no data");
      const Status why = thrown([&] { session.submit(barrier_of("b")).wait(); });
      EXPECT_EQ(why.code, goes_on ? Code::generation_ended : Code::aborted);
      EXPECT_THAT(why.message, testing::HasSubstr("no data"));
      session.leave({});
    });
  }
}

TEST(Session, FailEndsALeaveThatWaitsForOtherRanks) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    Lasting lasting(0, nullptr);
    Session session(group.join(rank), {}, lasting, false);
    if (rank == 0) {
      std::thread leaver([&] { session.leave({}); });
      session.fail("an exception that nobody catches");
      leaver.join();
    } else {
      EXPECT_FALSE(thrown([&] { session.submit(barrier_of("b")).wait(); }).ok());
      session.leave({});
    }
  });
}

TEST(Session, GivesTheNumberThatWasReturnedAgain) {
  Lasting lasting(0, nullptr);
  Session session(local::LocalGroup(1).join(0), {}, lasting, false);
  EXPECT_EQ(session.next_number(0), 1U);
  EXPECT_EQ(session.next_number(0), 2U);
  session.return_number(1, 0);
  EXPECT_EQ(session.next_number(0), 3U);
  session.return_number(3, 0);
  EXPECT_EQ(session.next_number(0), 3U);
  EXPECT_EQ(session.next_number(7), 1U) << "each process set has its own";
  session.leave({});
}

}  // namespace
}  // namespace hora
