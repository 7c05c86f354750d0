// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/poll_deadline.h"

#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora::nccl {
namespace {

TEST(PollDeadline, EndsWithTheNameOfWhatTookTooLong) {
  const StopFlag stop_flag;
  PollDeadline deadline(stop_flag, std::chrono::milliseconds(3), "ncclCommSplit (rank 0 of 2)");
  const Status status = thrown([&] {
    while (true) deadline.pause();
  });
  EXPECT_EQ(status.code, Code::timeout);
  EXPECT_EQ(status.message.find("ncclCommSplit (rank 0 of 2) has not come to an end after 0.0 s"), 0U)
      << status.message;
}

TEST(PollDeadline, EndsWithTheReasonThatAnotherThreadHas) {
  StopFlag stop_flag;
  const Status why{Code::aborted, "rank 1 is gone"};
  PollDeadline deadline(stop_flag, std::chrono::hours(1), "ncclAllReduce");
  const std::jthread other([&] { stop_flag.set(why); });
  EXPECT_EQ(thrown([&] {
              while (true) deadline.pause();
            }),
            why);
}

TEST(StopFlag, KeepsTheFirstReason) {
  StopFlag stop_flag;
  EXPECT_FALSE(stop_flag.is_set());
  EXPECT_EQ(thrown([&] { stop_flag.check(); }), Status{});
  stop_flag.set({Code::aborted, "rank 1 is gone"});
  stop_flag.set({Code::aborted, "rank 2 is gone"});
  EXPECT_TRUE(stop_flag.is_set());
  EXPECT_EQ(thrown([&] { stop_flag.check(); }).message, "rank 1 is gone");
}

}  // namespace
}  // namespace hora::nccl
