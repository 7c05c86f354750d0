// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/culprit.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hora::hrun {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{};

Ending code(int exit_code) { return {exit_code, ""}; }
Ending killed(int signal) { return {128 + signal, ""}; }

bool accuse(Culprit& culprit, int rank, const Ending& ending, TimePoint when) {
  return culprit.accuse({rank, 0, ending, when});
}

TEST(Culprit, IsTheFirstOfThoseThatFailed) {
  Culprit culprit;
  EXPECT_FALSE(culprit.known());
  EXPECT_TRUE(accuse(culprit, 2, code(7), kStart));
  EXPECT_FALSE(accuse(culprit, 0, code(3), kStart));
  EXPECT_EQ(culprit.failure().rank, 2);
  EXPECT_EQ(culprit.failure().ending.exit_code, 7);
}

TEST(Culprit, IsRatherTheOneThatWasKilledThanThoseThatGaveUpJustBefore) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGBUS, SIGTERM}) {
    Culprit culprit;
    accuse(culprit, 0, code(1), kStart);
    EXPECT_FALSE(accuse(culprit, 1, killed(signal), kStart + 999ms));
    accuse(culprit, 2, code(1), kStart + 999ms);
    EXPECT_EQ(culprit.failure().rank, 1) << signal;
    EXPECT_EQ(culprit.failure().ending.exit_code, 128 + signal);
  }
}

TEST(Culprit, IsRatherTheOneThatLeftThoughOthersWaitedForItThanThoseOthers) {
  for (const bool told_last : {false, true}) {
    Culprit culprit;
    if (!told_last) culprit.left_early(1);
    accuse(culprit, 0, code(1), kStart);
    EXPECT_EQ(culprit.failure().rank, 0);  // it may still end well
    accuse(culprit, 1, code(3), kStart + 5s);
    accuse(culprit, 2, code(1), kStart - 1s);
    if (told_last) culprit.left_early(1);
    EXPECT_EQ(culprit.failure().rank, 1) << told_last;
  }
}

TEST(Culprit, IsRatherTheOneThatWasKilledThanTheOneThatLeft) {
  Culprit culprit;
  culprit.left_early(1);
  accuse(culprit, 0, killed(SIGKILL), kStart);
  accuse(culprit, 1, code(3), kStart + 1ms);
  EXPECT_EQ(culprit.failure().rank, 0);
}

TEST(Culprit, IsNotOneThatWasKilledMuchLater) {
  Culprit culprit;
  accuse(culprit, 0, code(1), kStart);
  accuse(culprit, 1, killed(SIGKILL), kStart + 1s);
  EXPECT_EQ(culprit.failure().rank, 0);
}

TEST(Culprit, IsTheOneThatStandsStillUnlessAnotherWasKilled) {
  const Failure standing{1, 0, killed(SIGSTOP), kStart};
  Culprit missed;
  EXPECT_TRUE(missed.accuse({0, 0, code(1), kStart + 5s}, standing));
  EXPECT_FALSE(accuse(missed, 2, code(1), kStart + 5s));
  EXPECT_EQ(missed.failure().rank, 1);
  EXPECT_EQ(missed.failure().ending.exit_code, 128 + SIGSTOP);
  Culprit struck;
  EXPECT_TRUE(struck.accuse({0, 0, killed(SIGSEGV), kStart + 5s}, standing));
  EXPECT_EQ(struck.failure().rank, 0);
}

TEST(Culprit, IsTheFirstOfThoseThatWereKilled) {
  Culprit culprit;
  accuse(culprit, 1, killed(SIGKILL), kStart);
  accuse(culprit, 0, killed(SIGSEGV), kStart);
  EXPECT_EQ(culprit.failure().rank, 1);
}

TEST(Culprit, IsNotOneWhoseSignalComesOfMissingAnother) {
  for (const int signal : {SIGABRT, SIGPIPE, SIGALRM}) {
    Culprit culprit;
    accuse(culprit, 0, code(7), kStart);
    accuse(culprit, 1, killed(signal), kStart);
    EXPECT_EQ(culprit.failure().rank, 0) << signal;
  }
}

TEST(Culprit, TakesTheCodesAboveAllSignalsForErrors) {
  Culprit culprit;
  accuse(culprit, 0, code(7), kStart);
  accuse(culprit, 1, code(255), kStart);
  EXPECT_EQ(culprit.failure().rank, 0);
}

TEST(Culprit, IsTheOneThatEndedFirstThoughItsHostToldLater) {
  Culprit culprit;
  accuse(culprit, 0, code(1), kStart + 2ms);
  EXPECT_FALSE(accuse(culprit, 5, code(7), kStart + 1ms));
  EXPECT_EQ(culprit.failure().rank, 5);
}

TEST(Culprit, IsAHostThatWasLostJustBeforeRanksMissedIt) {
  Culprit culprit;
  accuse(culprit, 0, code(1), kStart + 3s);
  culprit.accuse({-1, 1, code(255), kStart + 1s});
  EXPECT_EQ(culprit.failure().host, 1);
  EXPECT_EQ(culprit.failure().ending.exit_code, 255);
}

TEST(Culprit, IsARankThatFailedLongBeforeAHostWasLost) {
  Culprit culprit;
  accuse(culprit, 0, code(1), kStart);
  culprit.accuse({-1, 1, code(255), kStart + 1s});
  EXPECT_EQ(culprit.failure().rank, 0);
}

}  // namespace
}  // namespace hora::hrun
