// SPDX-License-Identifier: Apache-2.0
#include "runner/build_report.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(BuildReport, SaysWhatIsThereAndWhatIsNot) {
  const std::string report = build_report();
  EXPECT_NE(report.find("[x] tcp"), std::string::npos);
  EXPECT_NE(report.find("[ ] nccl"), std::string::npos);
  EXPECT_NE(report.find("libhora"), std::string::npos);
}

}  // namespace
}  // namespace hora
