// SPDX-License-Identifier: Apache-2.0
#include "runner/horovod/config_file.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

std::optional<bool> takes_value(const std::string& flag) {
  if (flag == "--timeline-filename" || flag == "--num-proc" || flag == "--hosts" || flag == "--grace")
    return true;
  if (flag == "--verbose" || flag == "--timeline-mark-cycles") return false;
  return std::nullopt;
}

FileSettings parse(const std::string& text) { return parse_config(text, "job.yaml", takes_value); }

std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> all;
  for (const auto& each : parse(text).words) all.push_back(each.where + each.word);
  return all;
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(parse(text));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(ConfigFile, SaysWhatTheCommandLineWould) {
  EXPECT_THAT(
      words("num-proc: 4\n# a comment\nhosts: [a:2, \"[::1]:2\"]\nverbose: true\n"),
      ElementsAre("job.yaml:1: --num-proc=4", "job.yaml:3: --hosts=a:2,[::1]:2", "job.yaml:4: --verbose"));
  EXPECT_THAT(words("verbose: false"), IsEmpty());
  EXPECT_THAT(words("environment:\n  A: 1\n  B: x=y z\n"),
              ElementsAre("job.yaml:2: -xA=1", "job.yaml:3: -xB=x=y z"));
  EXPECT_THAT(words(""), IsEmpty());
}

TEST(ConfigFile, TakesHorovodsGroups) {
  const std::string text = R"(
controller: gloo
params:
  fusion_threshold_mb: 32
  cycle_time_ms: 5
  hierarchical_allreduce: true
autotune:
  enabled: false
timeline:
  filename: trace.json
  mark_cycles: true
stall_check:
  enabled: no
  warning_time_seconds: 120
library_options:
  gloo_timeout_seconds: 40
logging:
  level: INFO
  with_timestamp: false
)";
  EXPECT_THAT(words(text), ElementsAre("job.yaml:10: --timeline-filename=trace.json",
                                       "job.yaml:11: --timeline-mark-cycles"));
  EXPECT_THAT(parse(text).horovods,
              ElementsAre(Pair("autotune", "false"), Pair("cycle-time-ms", "5"),
                          Pair("fusion-threshold-mb", "32"), Pair("gloo", "true"),
                          Pair("gloo-timeout-seconds", "40"), Pair("hierarchical-allreduce", "true"),
                          Pair("log-level", "INFO"), Pair("log-with-timestamp", "false"),
                          Pair("stall-check", "false"), Pair("stall-check-warning-time-seconds", "120")));
  EXPECT_THAT(parse("log-level: debug\nno-stall-check: true\n").horovods,
              ElementsAre(Pair("log-level", "debug"), Pair("stall-check", "false")));
}

TEST(ConfigFile, NamesTheLineThatIsWrong) {
  EXPECT_EQ(
      refusal("num-proc: 4\nnumproc: 4\n"),
      "job.yaml:2: unknown key 'numproc': keys are hrun's long options without their dashes, environment, "
      "and Horovod's groups");
  EXPECT_EQ(refusal("params:\n  fusion_threshold: 4\n"),
            "job.yaml:2: unknown key 'fusion_threshold' in params");
  EXPECT_EQ(refusal("params: 4\n"), "job.yaml:1: params consists of 'key: value'");
  EXPECT_EQ(refusal("- a\n"), "job.yaml:1: a file consists of 'key: value'");
  EXPECT_EQ(refusal("verbose: 3\n"), "job.yaml:1: 'verbose' must be true or false");
  EXPECT_EQ(refusal("\nnum-proc:\n"), "job.yaml:2: 'num-proc' needs a value");
  EXPECT_EQ(refusal("num-proc: {a: 1}\n"), "job.yaml:1: 'num-proc' needs a value");
  EXPECT_EQ(refusal("num-proc: 1\nnum-proc: 2\n"), "job.yaml:2: 'num-proc' stands there twice");
  EXPECT_EQ(refusal("controller: jsrun\n"), "job.yaml:1: controller must be gloo or mpi");
  EXPECT_EQ(refusal("num-proc: [1\n").find("job.yaml:2: "), 0U);
}

TEST(ConfigFile, NamesAFileThatCannotBeRead) {
  try {
    static_cast<void>(read_config_file("/nonexistent.yaml", takes_value));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "/nonexistent.yaml: cannot read this file (--config-file)");
  }
}

}  // namespace
}  // namespace hora::hrun
