// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/root_cause.h"

#include <gtest/gtest.h>

#include <csignal>

namespace hora::hrun {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{};

Ending code(int exit_code) { return {exit_code, ""}; }
Ending killed(int signal) { return {128 + signal, ""}; }

bool accuse(RootCause& root_cause, int rank, const Ending& ending, TimePoint when) {
  return root_cause.accuse({rank, 0, ending, when});
}

TEST(RootCause, IsTheFirstOfThoseThatFailed) {
  RootCause root_cause;
  EXPECT_FALSE(root_cause.known());
  EXPECT_TRUE(accuse(root_cause, 2, code(7), kStart));
  EXPECT_FALSE(accuse(root_cause, 0, code(3), kStart));
  EXPECT_EQ(root_cause.failure().rank, 2);
  EXPECT_EQ(root_cause.failure().ending.exit_code, 7);
}

TEST(RootCause, IsRatherTheOneThatWasKilledThanThoseThatGaveUpJustBefore) {
  for (const int signal : {SIGKILL, SIGSEGV, SIGBUS, SIGTERM}) {
    RootCause root_cause;
    accuse(root_cause, 0, code(1), kStart);
    EXPECT_FALSE(accuse(root_cause, 1, killed(signal), kStart + 999ms));
    accuse(root_cause, 2, code(1), kStart + 999ms);
    EXPECT_EQ(root_cause.failure().rank, 1) << signal;
    EXPECT_EQ(root_cause.failure().ending.exit_code, 128 + signal);
  }
}

TEST(RootCause, IsRatherTheOneThatLeftThoughOthersWaitedForItThanThoseOthers) {
  for (const bool told_last : {false, true}) {
    RootCause root_cause;
    if (!told_last) root_cause.left_early(1);
    accuse(root_cause, 0, code(1), kStart);
    EXPECT_EQ(root_cause.failure().rank, 0);  // it may still end well
    accuse(root_cause, 1, code(3), kStart + 5s);
    accuse(root_cause, 2, code(1), kStart - 1s);
    if (told_last) root_cause.left_early(1);
    EXPECT_EQ(root_cause.failure().rank, 1) << told_last;
  }
}

TEST(RootCause, IsRatherTheOneThatWasKilledThanTheOneThatLeft) {
  RootCause root_cause;
  root_cause.left_early(1);
  accuse(root_cause, 0, killed(SIGKILL), kStart);
  accuse(root_cause, 1, code(3), kStart + 1ms);
  EXPECT_EQ(root_cause.failure().rank, 0);
}

TEST(RootCause, IsNotOneThatWasKilledMuchLater) {
  RootCause root_cause;
  accuse(root_cause, 0, code(1), kStart);
  accuse(root_cause, 1, killed(SIGKILL), kStart + 1s);
  EXPECT_EQ(root_cause.failure().rank, 0);
}

TEST(RootCause, IsTheOneThatStandsStillUnlessAnotherWasKilled) {
  const Failure standing{1, 0, killed(SIGSTOP), kStart};
  RootCause missed;
  EXPECT_TRUE(missed.accuse({0, 0, code(1), kStart + 5s}, standing));
  EXPECT_FALSE(accuse(missed, 2, code(1), kStart + 5s));
  EXPECT_EQ(missed.failure().rank, 1);
  EXPECT_EQ(missed.failure().ending.exit_code, 128 + SIGSTOP);
  RootCause struck;
  EXPECT_TRUE(struck.accuse({0, 0, killed(SIGSEGV), kStart + 5s}, standing));
  EXPECT_EQ(struck.failure().rank, 0);
}

TEST(RootCause, IsTheFirstOfThoseThatWereKilled) {
  RootCause root_cause;
  accuse(root_cause, 1, killed(SIGKILL), kStart);
  accuse(root_cause, 0, killed(SIGSEGV), kStart);
  EXPECT_EQ(root_cause.failure().rank, 1);
}

TEST(RootCause, IsNotOneWhoseSignalComesOfMissingAnother) {
  for (const int signal : {SIGABRT, SIGPIPE, SIGALRM}) {
    RootCause root_cause;
    accuse(root_cause, 0, code(7), kStart);
    accuse(root_cause, 1, killed(signal), kStart);
    EXPECT_EQ(root_cause.failure().rank, 0) << signal;
  }
}

TEST(RootCause, TakesTheCodesAboveAllSignalsForErrors) {
  RootCause root_cause;
  accuse(root_cause, 0, code(7), kStart);
  accuse(root_cause, 1, code(255), kStart);
  EXPECT_EQ(root_cause.failure().rank, 0);
}

TEST(RootCause, IsTheOneThatEndedFirstThoughItsHostToldLater) {
  RootCause root_cause;
  accuse(root_cause, 0, code(1), kStart + 2ms);
  EXPECT_FALSE(accuse(root_cause, 5, code(7), kStart + 1ms));
  EXPECT_EQ(root_cause.failure().rank, 5);
}

TEST(RootCause, IsAHostThatWasLostJustBeforeRanksMissedIt) {
  RootCause root_cause;
  accuse(root_cause, 0, code(1), kStart + 3s);
  root_cause.accuse({-1, 1, code(255), kStart + 1s});
  EXPECT_EQ(root_cause.failure().host, 1);
  EXPECT_EQ(root_cause.failure().ending.exit_code, 255);
}

TEST(RootCause, IsARankThatFailedLongBeforeAHostWasLost) {
  RootCause root_cause;
  accuse(root_cause, 0, code(1), kStart);
  root_cause.accuse({-1, 1, code(255), kStart + 1s});
  EXPECT_EQ(root_cause.failure().rank, 0);
}

}  // namespace
}  // namespace hora::hrun
