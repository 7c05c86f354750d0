// SPDX-License-Identifier: Apache-2.0
#include "core/base/knobs.h"

#include "test/support/thrown.h"

#include <hora/status.h>

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

namespace hora {
namespace {

/// A value of each knob that is not its default.
const std::map<std::string, std::string> kOtherValues{
    {"HORA_START_TIMEOUT", "1.5"},
    {"HORA_HEARTBEAT_TIMEOUT", "0.5"},
    {"HORA_MISSING_WARNING", "1"},
    {"HORA_MISSING_TIMEOUT", "2"},
    {"HORA_OPERATION_TIMEOUT", "3"},
    {"HORA_NETWORK", "10.1.0.0/16,eth0"},
    {"HORA_ENCRYPTION", "all"},
    {"HORA_TREE", "2"},
    {"HORA_CPU_OPERATIONS", "tcp"},
    {"HORA_GPU_OPERATIONS", "staged"},
    {"HORA_NCCL_LIBRARY", "/lib/nccl.so"},
    {"NCCL_HOSTID", "a"},
    {"HORA_FLOAT32_SUMS", "1"},
    {"HORA_GPU_FUSION_THRESHOLD", "7"},
    {"HORA_DETERMINISTIC", "1"},
    {"HORA_TCP_STREAMS", "16"},
    {"HORA_FUSION_THRESHOLD", "1"},
    {"HORA_AUTOTUNE", "1"},
    {"HORA_AUTOTUNE_LOG", "log.csv"},
    {"HORA_AUTOTUNE_STEPS", "3"},
    {"HORA_ARENA_SIZE", "33554432"},
    {"HORA_PEER_MEMORY", "0"},
    {"HORA_STREAMING_STORES", "1"},
    {"HORA_LEVELS", "8,32"},
    {"HORA_STRAGGLER_STEPS", "0"},
    {"HORA_RECORDED_OPERATIONS", "5"},
    {"HORA_TIMELINE", "trace.json"},
    {"HORA_TIMELINE_MARK_CYCLES", "1"},
    {"HORA_DUMP_DIR", "/tmp/dumps"},
    {"HORA_DUMP_SIGNAL", "USR2"},
    {"HORA_LOG_LEVEL", "debug"},
};

TEST(Knobs, FormatWhatTheyParseAndParseWhatTheyFormat) {
  const Config defaults;
  for (const auto& knob : knobs()) {
    ASSERT_TRUE(kOtherValues.contains(knob.variable)) << knob.variable;
    const std::string& value = kOtherValues.at(knob.variable);
    const std::string usual = knob.format(defaults);
    Config config;
    knob.parse(config, knob.variable, value);
    EXPECT_EQ(knob.format(config), value) << knob.variable;
    if (usual.empty()) continue;
    knob.parse(config, knob.variable, usual);
    EXPECT_EQ(knob.format(config), usual) << knob.variable;
  }
}

TEST(Knobs, NameTheSourceAndTheValueThatTheyRefuse) {
  const std::set<std::string> texts{"HORA_NETWORK",       "HORA_NCCL_LIBRARY", "NCCL_HOSTID",
                                    "HORA_AUTOTUNE_LOG",  "HORA_TIMELINE",     "HORA_DUMP_DIR",
                                    "HORA_CPU_OPERATIONS"};  // core/runtime/backends.cc knows its values
  for (const auto& knob : knobs()) {
    if (texts.contains(knob.variable)) continue;
    Config config;
    const Status why = thrown([&] { knob.parse(config, "HOROVOD_NAME", "many"); });
    EXPECT_EQ(why.code, Code::invalid_argument);
    EXPECT_EQ(why.message.find("HOROVOD_NAME='many': expected "), 0U) << why.message;
  }
}

}  // namespace
}  // namespace hora
