// SPDX-License-Identifier: Apache-2.0
#include "runner/horovod/horovod_flags.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::string refusal_of_flags(const HorovodSettings& settings) {
  try {
    static_cast<void>(variables_of(settings));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(HorovodFlags, AreFoundByTheirNames) {
  EXPECT_FALSE(find_horovod_flag("--num-proc"));
  EXPECT_TRUE(find_horovod_flag("--fusion-threshold-mb")->takes_value());
  EXPECT_STREQ(find_horovod_flag("--no-stall-check")->setting, "stall-check");
  EXPECT_STREQ(find_horovod_flag("--no-stall-check")->value, "false");
}

TEST(HorovodFlags, BecomeVariablesOfOurs) {
  EXPECT_THAT(
      variables_of({{"fusion-threshold-mb", "2"}, {"log-level", "TRACE"}, {"gloo-timeout-seconds", "9"}}),
      ElementsAre(Pair("HORA_FUSION_THRESHOLD", "2097152"), Pair("HORA_LOG_LEVEL", "debug"),
                  Pair("HORA_START_TIMEOUT", "9")));
  EXPECT_THAT(variables_of({{"fusion-threshold-mb", "0"}}), ElementsAre(Pair("HORA_FUSION_THRESHOLD", "1")));
  EXPECT_THAT(variables_of({{"stall-check", "true"}, {"stall-check-warning-time-seconds", "7"}}),
              ElementsAre(Pair("HORA_MISSING_WARNING", "7")));
  EXPECT_THAT(variables_of({{"stall-check", "false"}, {"stall-check-warning-time-seconds", "7"}}),
              ElementsAre(Pair("HORA_MISSING_WARNING", "0"), Pair("HORA_MISSING_TIMEOUT", "0")));
  EXPECT_THAT(variables_of({{"stall-check-shutdown-time-seconds", "90"}}),
              ElementsAre(Pair("HORA_MISSING_TIMEOUT", "90")));
  EXPECT_THAT(variables_of(
                  {{"autotune", "true"}, {"autotune-log-file", "a.csv"}, {"autotune-steps-per-sample", "5"}}),
              ElementsAre(Pair("HORA_AUTOTUNE", "1"), Pair("HORA_AUTOTUNE_LOG", "a.csv"),
                          Pair("HORA_AUTOTUNE_STEPS", "5")));
  EXPECT_THAT(variables_of({{"autotune", "false"}}), ElementsAre(Pair("HORA_AUTOTUNE", "0")));
  EXPECT_THAT(variables_of({{"cycle-time-ms", "3"}}), IsEmpty());
}

TEST(HorovodFlags, AreRefusedWhenTheirValuesMakeNoSense) {
  EXPECT_EQ(refusal_of_flags({{"fusion-threshold-mb", "-1"}}),
            "--fusion-threshold-mb: must be a whole number of MiB from 0 to 10000000, not '-1'");
  EXPECT_EQ(
      refusal_of_flags({{"stall-check-warning-time-seconds", "1s"}}),
      "--stall-check-warning-time-seconds: must be a whole number of seconds from 0 to 10000000, not '1s'");
  EXPECT_EQ(refusal_of_flags({{"log-level", "loud"}}),
            "--log-level: must be trace, debug, info, warning, error or fatal, not 'loud'");
}

TEST(HorovodFlags, SayWhyTheyMeanNothing) {
  EXPECT_THAT(
      meaningless_among({{"cycle-time-ms", "3"}, {"autotune-warmup-samples", "5"}, {"log-level", "info"}}),
      ElementsAre("--cycle-time-ms (there is no cycle to wait for)",
                  "--autotune-warmup-samples (autotune tries every size twice)"));
  EXPECT_THAT(meaningless_among({{"autotune", "false"}, {"log-with-timestamp", "true"}}), IsEmpty());
  EXPECT_THAT(meaningless_among({{"log-with-timestamp", "false"}}),
              ElementsAre("--log-without-timestamp (lines of the log always have the time)"));
}

}  // namespace
}  // namespace hora::hrun
