// SPDX-License-Identifier: Apache-2.0
#include "core/watch/tracer.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::seconds;

TEST(Tracer, CollectsOnlyWhileItIsOn) {
  const TimePoint now = TimePoint() + seconds(100);
  Tracer tracer;
  tracer.add({});
  EXPECT_FALSE(tracer.take(now));
  tracer.start(false);
  tracer.add({});
  tracer.mark_cycle(now);
  const auto part = tracer.stop(now);
  EXPECT_EQ(part.operations.size(), 1u);
  EXPECT_TRUE(part.cycles.empty()) << "nobody wanted them";
  EXPECT_TRUE(part.last);
  EXPECT_FALSE(tracer.on());
}

TEST(Tracer, GivesWhenItIsMuchOrOld) {
  const TimePoint now = TimePoint() + seconds(100);
  Tracer tracer;
  tracer.start(true);
  EXPECT_FALSE(tracer.take(now)) << "there is nothing";
  tracer.add({});
  EXPECT_TRUE(tracer.take(now)) << "nothing was given before";
  tracer.add({});
  EXPECT_FALSE(tracer.take(now));
  EXPECT_TRUE(tracer.take(now + seconds(1)));
  for (int i = 0; i < 1000; ++i) tracer.mark_cycle(now);
  EXPECT_TRUE(tracer.take(now + seconds(1)));
}

}  // namespace
}  // namespace hora
