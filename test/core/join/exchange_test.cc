// SPDX-License-Identifier: Apache-2.0
#include "core/join/exchange.h"

#include "core/backend/local/control_queues.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Exchange, ThrowsTheLossOfARank) {
  auto queues = std::make_shared<local::ControlQueues>(2);
  const auto control = local::make_local_control(queues, 0);
  queues->lose(1, {Code::aborted, "rank 1 is gone"});
  EXPECT_THROW(exchange(*control, {}, TimePoint::max()), Error);
}

TEST(Exchange, RefusesAnAnswerThatIsNotOfAllRanks) {
  auto queues = std::make_shared<local::ControlQueues>(2);
  const auto control = local::make_local_control(queues, 1);
  queues->put(1, {0, {std::byte{1}, std::byte{0}}, {}});
  EXPECT_THROW(exchange(*control, {}, TimePoint::max()), Error);
}

}  // namespace
}  // namespace hora
