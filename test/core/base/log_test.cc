// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Log, WritesOneLineWithRankAndLevel) {
  set_log("warning", 3);
  testing::internal::CaptureStderr();
  log(LogLevel::warning, "'grad' is late");
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find(" rank 3 warning: 'grad' is late\n"), std::string::npos) << line;
  set_log("warning", -1);
}

TEST(Log, KeepsQuietBelowItsLevel) {
  testing::internal::CaptureStderr();
  log(LogLevel::info, "nobody asked");
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace hora
