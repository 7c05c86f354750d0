// SPDX-License-Identifier: Apache-2.0
#include "runner/preflight/probe.h"

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

TEST(Probe, IsTheCommandThatStartsIt) {
  const auto command = probe_command({{"a", 4}, {"::1", 2}, {"me@fd00::1", 1}});
  ASSERT_EQ(command.size(), 3u);
  EXPECT_EQ(command[0], "/proc/self/exe");
  EXPECT_EQ(command[1], "--probe");
  EXPECT_EQ(command[2], "a:4,[::1]:2,me@[fd00::1]:1");
}

TEST(Probe, IsNotWhatElseHrunIsAskedFor) {
  EXPECT_FALSE(run_probe({}));
  EXPECT_FALSE(run_probe({"-np", "2", "true"}));
  EXPECT_FALSE(run_probe({"--probe"}));
}

}  // namespace
}  // namespace hora::hrun
