// SPDX-License-Identifier: Apache-2.0
#include "runner/culprit.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hora {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{};

Ending code(int exit_code) { return {exit_code, ""}; }
Ending killed(int signal) { return {128 + signal, ""}; }

TEST(Culprit, IsTheFirstOfThoseThatFailed) {
  Culprit culprit;
  EXPECT_FALSE(culprit.known());
  EXPECT_TRUE(culprit.accuse(2, code(7), kStart));
  EXPECT_FALSE(culprit.accuse(0, code(3), kStart));
  EXPECT_EQ(culprit.rank(), 2);
  EXPECT_EQ(culprit.ending().exit_code, 7);
}

TEST(Culprit, IsRatherTheOneThatWasKilledThanThoseThatGaveUpJustBefore) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGBUS, SIGTERM}) {
    Culprit culprit;
    culprit.accuse(0, code(1), kStart);
    EXPECT_FALSE(culprit.accuse(1, killed(signal), kStart + 999ms));
    culprit.accuse(2, code(1), kStart + 999ms);
    EXPECT_EQ(culprit.rank(), 1) << signal;
    EXPECT_EQ(culprit.ending().exit_code, 128 + signal);
  }
}

TEST(Culprit, IsNotOneThatWasKilledMuchLater) {
  Culprit culprit;
  culprit.accuse(0, code(1), kStart);
  culprit.accuse(1, killed(SIGKILL), kStart + 1s);
  EXPECT_EQ(culprit.rank(), 0);
}

TEST(Culprit, IsTheFirstOfThoseThatWereKilled) {
  Culprit culprit;
  culprit.accuse(1, killed(SIGKILL), kStart);
  culprit.accuse(0, killed(SIGSEGV), kStart);
  EXPECT_EQ(culprit.rank(), 1);
}

TEST(Culprit, IsNotOneWhoseSignalComesOfMissingAnother) {
  for (const int signal : {SIGABRT, SIGPIPE, SIGALRM}) {
    Culprit culprit;
    culprit.accuse(0, code(7), kStart);
    culprit.accuse(1, killed(signal), kStart);
    EXPECT_EQ(culprit.rank(), 0) << signal;
  }
}

TEST(Culprit, TakesTheCodesAboveAllSignalsForErrors) {
  Culprit culprit;
  culprit.accuse(0, code(7), kStart);
  culprit.accuse(1, code(255), kStart);
  EXPECT_EQ(culprit.rank(), 0);
}

}  // namespace
}  // namespace hora
