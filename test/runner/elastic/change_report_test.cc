// SPDX-License-Identifier: Apache-2.0
#include "runner/elastic/change_report.h"

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using std::chrono::milliseconds;

TEST(ChangeReport, TellsEachEventOnceAndOfManyTheFirst) {
  ChangeReport report(TimePoint(), "the members change");
  for (int i = 0; i < 10; ++i) report.add("event " + std::to_string(i));
  elastic::GenerationRecord record{.generation = 2, .members = {{1, 0, 0}, {2, 0, 1}}};
  EXPECT_EQ(report.describe(record, 2, 12),
            "event 0; event 1; event 2; event 3; event 4; event 5; event 6; event 7; 2 more; the job goes on "
            "with 2 of 12 ranks (generation 2)");
  record.generation = 3;
  record.paused = true;
  record.members.pop_back();
  EXPECT_EQ(report.describe(record, 2, 12),
            "the members change; the job pauses with 1 of 12 ranks, as it needs 2 (generation 3)");
}

TEST(ChangeReport, TellsHowLongItsPartsTook) {
  ChangeReport report(TimePoint(milliseconds(100)), "");
  report.stopped(TimePoint(milliseconds(103)));
  report.formed(TimePoint(milliseconds(110)));
  EXPECT_EQ(
      report.describe_times(4),
      "generation 4: its members stopped 3.0 ms after the change was noticed, and were connected 7.0 ms "
      "later");
  const ChangeTimes times = report.times(TimePoint(milliseconds(1110)));
  EXPECT_DOUBLE_EQ(times.seconds_to_stop, 0.003);
  EXPECT_DOUBLE_EQ(times.seconds_to_connect, 0.007);
  EXPECT_DOUBLE_EQ(times.seconds_ago, 1);
  EXPECT_FALSE(times.seconds_to_next_step);
}

TEST(Changes, KeepThoseThatAreOver) {
  Changes changes{TimePoint(milliseconds(100))};
  EXPECT_EQ(changes.under_way(), nullptr);
  const elastic::GenerationRecord record{.generation = 2, .members = {{1, 0, 0}}};
  for (int i = 0; i < 1001; ++i) {
    changes.begin("a loss", TimePoint(milliseconds(600)));
    changes.begin("another cause", TimePoint(milliseconds(700))).stopped(TimePoint(milliseconds(800)));
    static_cast<void>(changes.under_way()->describe(record, 1, 2));
    changes.end(TimePoint(milliseconds(1100)));
  }
  EXPECT_EQ(changes.under_way(), nullptr);
  EXPECT_TRUE(changes.last());
  const auto all = changes.summary();
  ASSERT_EQ(all.size(), 1000U) << "the last ones";
  EXPECT_EQ(all[0].what, "a loss");
  EXPECT_EQ(all[0].generation, 2U);
  EXPECT_EQ(all[0].members, 1);
  EXPECT_DOUBLE_EQ(all[0].seconds, 0.5);
  EXPECT_DOUBLE_EQ(all[0].seconds_to_stop, 0.2);
  EXPECT_DOUBLE_EQ(all[0].seconds_to_connect, 0.3);
}

TEST(Changes, TellWhenTheNextStepCounted) {
  Changes changes{TimePoint(milliseconds(100))};
  EXPECT_FALSE(changes.stepped(1, TimePoint(milliseconds(200)))) << "the job has just begun";
  changes.begin("a loss", TimePoint(milliseconds(600)));
  static_cast<void>(changes.under_way()->describe({.generation = 2, .members = {{1, 0, 0}}}, 1, 2));
  changes.end(TimePoint(milliseconds(610)));
  EXPECT_FALSE(changes.stepped(1, TimePoint(milliseconds(620)))) << "in the generation before";
  ASSERT_TRUE(changes.stepped(2, TimePoint(milliseconds(631))));
  EXPECT_EQ(changes.last()->describe_step(),
            "generation 2: its first step counted 31.0 ms after the change was noticed");
  EXPECT_DOUBLE_EQ(changes.summary().back().seconds_to_next_step.value(), 0.031);
}

}  // namespace
}  // namespace hora::hrun
