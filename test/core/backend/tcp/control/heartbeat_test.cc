// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/heartbeat.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TimePoint kStart = TimePoint(std::chrono::hours(1));

TEST(Heartbeat, BeatsOnceASecondAndOftenerWhereLessSilenceIsBorne) {
  const auto interval = [](milliseconds silence) { return Heartbeat(silence, kStart).next() - kStart; };
  EXPECT_EQ(interval(milliseconds(0)), seconds(1));
  EXPECT_EQ(interval(seconds(60)), seconds(1));
  EXPECT_EQ(interval(seconds(2)), milliseconds(500));
  EXPECT_EQ(interval(milliseconds(1)), milliseconds(10));
}

TEST(Heartbeat, IsDueOnceInEachInterval) {
  Heartbeat heartbeat(seconds(5), kStart);
  EXPECT_FALSE(heartbeat.due(kStart + milliseconds(999)));
  EXPECT_TRUE(heartbeat.due(kStart + milliseconds(1500)));
  EXPECT_FALSE(heartbeat.due(kStart + milliseconds(2400)));
  EXPECT_TRUE(heartbeat.due(kStart + milliseconds(2500)));
}

TEST(Heartbeat, GivesUpAfterTheTimeOutOrNever) {
  EXPECT_EQ(Heartbeat(seconds(5), kStart).ends(kStart), kStart + seconds(5));
  EXPECT_EQ(Heartbeat(seconds(0), kStart).ends(kStart), TimePoint::max());
}

TEST(Heartbeat, NoticesThatItsThreadWasStopped) {
  Heartbeat heartbeat(seconds(5), kStart);
  EXPECT_FALSE(heartbeat.turn(kStart + seconds(3)));
  EXPECT_TRUE(heartbeat.turn(kStart + milliseconds(6001)));
  EXPECT_FALSE(heartbeat.turn(kStart + seconds(7)));
  Heartbeat quick(seconds(1), kStart);
  EXPECT_FALSE(quick.turn(kStart + milliseconds(600)));
  EXPECT_TRUE(quick.turn(kStart + milliseconds(1201)));
}

}  // namespace
}  // namespace hora::tcp
