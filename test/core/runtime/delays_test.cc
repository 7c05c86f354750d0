// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/delays.h"

#include <hora/hora.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::seconds;

TEST(Delays, TellOfTheScopeThatEndsLast) {
  Delays delays;
  EXPECT_FALSE(delays.take_change({}));
  const auto evaluation = delays.open("evaluation", seconds(300), {});
  const auto checkpoint = delays.open("checkpoint", seconds(60), {});
  EXPECT_EQ(delays.take_change(TimePoint() + seconds(10)), (Delay{"evaluation", seconds(290)}));
  EXPECT_FALSE(delays.take_change({})) << "no news";
  delays.close(evaluation);
  EXPECT_EQ(delays.take_change(TimePoint() + seconds(20)), (Delay{"checkpoint", seconds(40)}));
  delays.close(checkpoint);
  EXPECT_EQ(delays.take_change({}), Delay());
}

TEST(Delays, WakeWhoWantsToTell) {
  Delays delays;
  int woken = 0;
  delays.on_change([&] { ++woken; });
  delays.close(delays.open("x", seconds(1), {}));
  EXPECT_EQ(woken, 2);
  delays.close(17);
  EXPECT_EQ(woken, 2) << "there is no such scope";
  delays.on_change({});
  delays.open("x", seconds(1), {});
  EXPECT_EQ(woken, 2);
}

TEST(ExpectedDelay, EndsOnceAndWithItsOwner) {
  Config config;
  config.size = 1;
  Runtime runtime(config);
  EXPECT_THROW(static_cast<void>(runtime.expect_delay("x", seconds(0))), Error);
  EXPECT_THROW(static_cast<void>(runtime.expect_delay("x", seconds(100'000'000))), Error);
  ExpectedDelay one = runtime.expect_delay("evaluation", seconds(300));
  ExpectedDelay other = std::move(one);
  other = runtime.expect_delay("checkpoint", seconds(300));
  other.end();
  other.end();
  runtime.shutdown();
  const ExpectedDelay late = runtime.expect_delay("too late to matter", seconds(1));
}

}  // namespace
}  // namespace hora
