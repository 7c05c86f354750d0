// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/leaving.h"

#include "core/backend/local/local_group.h"

#include <gtest/gtest.h>

#include <array>

namespace hora {
namespace {

class LeavingTest : public testing::Test {
 protected:
  local::LocalGroup group_{2};
  World world_ = group_.join(0);
  World other_ = group_.join(1);
  Timeline timeline_{2};
  ProcessSets sets_{2};
  Messages messages_{*world_.messenger, 0, sets_};
  Messages others_{*other_.messenger, 1, sets_};
  Negotiator negotiator_{*world_.control};
  Tracing tracing_{timeline_, negotiator_, 0};
  Leaving leaving_{messages_, tracing_, negotiator_};
};

TEST_F(LeavingTest, TakesTheFirstReasonToStopAlsoWhileItLeaves) {
  EXPECT_EQ(leaving_.stopped(), std::nullopt);
  leaving_.ask();
  EXPECT_TRUE(leaving_.stop({Code::aborted, "out of memory"}));
  EXPECT_FALSE(leaving_.stop({Code::aborted, "another one"}));
  EXPECT_EQ(leaving_.stopped()->message, "out of memory");
  EXPECT_TRUE(leaving_.asked());
}

TEST_F(LeavingTest, LeavesOnceItsMessagesHaveArrived) {
  std::array<float, 2> data{1, 2};
  Message message;
  message.peer = 1;
  message.shape = {2};
  message.input = data.data();
  const Handle handle = messages_.send(message);
  message.peer = 0;
  message.input = nullptr;
  message.output = data.data();
  others_.receive(message).wait();
  handle.wait();
  EXPECT_FALSE(leaving_.has_left());
  leaving_.go_on(Clock::now());
  EXPECT_TRUE(leaving_.has_left());
  leaving_.go_on(Clock::now());  // has nothing more to do
}

}  // namespace
}  // namespace hora
