// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/control_queues.h"

#include <gtest/gtest.h>

namespace hora::local {
namespace {

TEST(ControlQueues, OnlyTheFirstLossCounts) {
  ControlQueues queues(3);
  queues.lose(1, {Code::aborted, "first"});
  queues.lose(2, {Code::aborted, "second"});
  EXPECT_EQ(std::get<PeerLost>(*queues.take(0, TimePoint::max())).why.message, "first");
  EXPECT_EQ(queues.take(0, TimePoint::min()), std::nullopt);
}

TEST(ControlQueues, ARankThatFailsByALossDoesNotNameItselfToThoseWhoHaveNotHeardOfTheLossYet) {
  const auto queues = std::make_shared<ControlQueues>(3);
  const auto control = make_local_control(queues, 0);
  control->on_loss([&](const Status& why) { control->fail(why); });  // rank 1 comes after rank 0
  queues->lose(2, {Code::aborted, "rank 2 is gone"});
  EXPECT_EQ(std::get<PeerLost>(*queues->take(1, TimePoint::max())).why.message, "rank 2 is gone");
  EXPECT_EQ(queues->take(1, TimePoint::min()), std::nullopt);
  EXPECT_EQ(std::get<PeerLost>(*queues->take(2, TimePoint::max())).why.message,
            "rank 0 failed: rank 2 is gone");
}

}  // namespace
}  // namespace hora::local
