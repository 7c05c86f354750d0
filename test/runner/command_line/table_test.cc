// SPDX-License-Identifier: Apache-2.0
#include "runner/command_line/table.h"

#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

TEST(Table, PutsColumnsBelowEachOther) {
  EXPECT_EQ(table({{"rank", "host"}, {"0", "node7"}, {"1000000", "-"}}),
            "rank     host\n0        node7\n1000000  -\n");
  EXPECT_EQ(table({}), "");
}

TEST(Cut, LeavesTheBeginning) {
  EXPECT_EQ(cut("short"), "short");
  EXPECT_EQ(cut(std::string(41, 'x')), std::string(37, 'x') + "...");
}

}  // namespace
}  // namespace hora::hrun
