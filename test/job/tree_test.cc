// SPDX-License-Identifier: Apache-2.0
// Real ranks that agree over a tree of sockets, as jobs of many ranks do.
#include "test/job/shell.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

namespace hora {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 20;
const std::vector<std::string> kTree{"-x", "HORA_CPU_OPERATIONS=tcp", "-x", "HORA_TREE=2"};

TEST(TreeJob, Reduces) {
  const Outcome outcome = run_hrun(worker(kRanks, {"reduce"}, kTree));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
  EXPECT_EQ(outcome.output, "[ 0] done\n");
}

TEST(TreeJob, ADeathIsNamedByAllOthersWhereverItIs) {
  for (const int victim : {0, 1, 2, kRanks - 1}) {  // the root, inner ranks, a leaf
    Launched launched(worker(kRanks, {"die", std::to_string(victim), "30"}, kTree));
    const Outcome outcome = launched.wait();
    EXPECT_EQ(outcome.exit_code, 137) << outcome.output << outcome.errors;
    const std::regex heard(fmt::format("rank {} \\(pid [0-9]+ on .*\\) is gone: ", victim));
    const auto survivors = std::distance(
        std::sregex_iterator(outcome.output.begin(), outcome.output.end(), heard), std::sregex_iterator());
    EXPECT_EQ(survivors, kRanks - 1) << "victim " << victim << "\n" << outcome.output << outcome.errors;
    EXPECT_TRUE(launched.all_gone());
  }
}

TEST(TreeJob, WhoForgetsATensorIsNamed) {
  auto options = kTree;
  options.insert(options.end(), {"-x", "HORA_MISSING_TIMEOUT=6"});
  const Outcome outcome = run_hrun(worker(kRanks, {"forget", "7"}, options));
  EXPECT_NE(outcome.exit_code, 0);
  EXPECT_THAT(outcome.output + outcome.errors, HasSubstr("rank 7 (pid "));
  EXPECT_THAT(outcome.output + outcome.errors, HasSubstr("'only'"));
}

TEST(TreeJob, RandomOperationsInAnyOrderAreRightAndHoldNothing) {
  auto words = kTree;
  words.insert(words.begin(), {"-np", "7"});
  words.insert(words.end(), {HORA_SOAK, "5000"});
  const Outcome outcome = run_hrun(words);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.output << outcome.errors;
}

}  // namespace
}  // namespace hora
