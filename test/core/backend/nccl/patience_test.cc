// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/patience.h"

#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora::nccl {
namespace {

TEST(Patience, EndsWithTheNameOfWhatTookTooLong) {
  const Halt halt;
  Patience patience(halt, std::chrono::milliseconds(3), "ncclCommSplit (rank 0 of 2)");
  const Status status = thrown([&] {
    while (true) patience.pause();
  });
  EXPECT_EQ(status.code, Code::timeout);
  EXPECT_EQ(status.message.find("ncclCommSplit (rank 0 of 2) has not come to an end after 0.0 s"), 0U)
      << status.message;
}

TEST(Patience, EndsWithTheReasonThatAnotherThreadHas) {
  Halt halt;
  const Status why{Code::aborted, "rank 1 is gone"};
  Patience patience(halt, std::chrono::hours(1), "ncclAllReduce");
  const std::jthread other([&] { halt.set(why); });
  EXPECT_EQ(thrown([&] {
              while (true) patience.pause();
            }),
            why);
}

TEST(Halt, KeepsTheFirstReason) {
  Halt halt;
  EXPECT_FALSE(halt.is_set());
  EXPECT_EQ(thrown([&] { halt.check(); }), Status{});
  halt.set({Code::aborted, "rank 1 is gone"});
  halt.set({Code::aborted, "rank 2 is gone"});
  EXPECT_TRUE(halt.is_set());
  EXPECT_EQ(thrown([&] { halt.check(); }).message, "rank 1 is gone");
}

}  // namespace
}  // namespace hora::nccl
