// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/end_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

JobSummary job_of(int ranks) {
  JobSummary summary;
  summary.hosts = {"a"};
  for (int rank = 0; rank < ranks; ++rank) {
    summary.ranks.emplace_back().rank = rank;
    summary.ranks.back().ending = Ending{1, "exited with code 1"};
  }
  return summary;
}

Reply ends(const EndReport& report) { return {0, ReplyKind::ends, encode(report)}; }
Reply gave_up(const std::string& why, const std::string& dump) {
  return {0, ReplyKind::gave_up, encode(GaveUp{why, dump})};
}

TEST(EndReports, ShowATraceOnceForAllRanksWithTheSameError) {
  EndReports reports;
  const auto first = reports.take(2, ends({"E: x", "a.py:1", "trace 2\n"}));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->text, "trace 2\n");
  EXPECT_TRUE(first->shown);
  EXPECT_FALSE(reports.take(0, ends({"E: x", "b.py:1", "trace 0\n"}))->shown);
  EXPECT_TRUE(reports.take(1, ends({"E: y", "b.py:1", "trace 1\n"}))->shown);
  EXPECT_FALSE(reports.take(3, ends({"E: x", "b.py:1", ""}))) << "it has printed it itself";
  EXPECT_TRUE(reports.has_shown(0));
  EXPECT_FALSE(reports.has_shown(3));
}

TEST(EndReports, CallAnErrorCommonThatMoreRanksHaveThanAreLeftWithoutIt) {
  EndReports reports;
  reports.take(0, ends({"E: x", "a.py:1", ""}));
  reports.take(1, ends({"E: x", "b.py:1", ""}));
  reports.take(2, ends({"E: x", "a.py:1", ""}));
  EXPECT_FALSE(reports.is_common(2, {0, 1, 2, 3}));
  EXPECT_FALSE(reports.is_common(2, {1, 3})) << "two of four, also when they train no more";
  EXPECT_TRUE(reports.is_common(2, {0, 1, 2}));
  EXPECT_TRUE(reports.is_common(2, {1}));
  EXPECT_FALSE(reports.is_common(1, {0, 1, 2})) << "at another line";
  EXPECT_FALSE(reports.is_common(3, {0, 1, 2})) << "it has told nothing";
  EXPECT_FALSE(reports.is_common(1, {1})) << "one rank has nothing in common";
}

TEST(EndReports, TellOfRanksThatFailForOneReasonTogetherAndOfTheFirstCauseFirst) {
  EndReports reports;
  for (const int rank : {0, 1, 3})
    reports.take(rank, ends({"E: rank 2 failed\nmore", "a.py:7 in step", "t\n"}));
  reports.take(4, ends({"E: rank 2 failed\nmore", "a.py:9", "t\n"}));
  reports.take(2, ends({"ValueError: bad\n  batch", "a.py:3", ""}));
  EXPECT_EQ(reports.describe(2, job_of(6)),
            "hrun: ValueError: bad\n  batch\n"
            "hrun: rank 2 at a.py:3\n"
            "hrun: ranks 0-1, 3 at a.py:7 in step: E: rank 2 failed\n"
            "hrun: rank 4 at a.py:9: E: rank 2 failed\n");
  EXPECT_EQ(reports.describe(5, job_of(6)).find("ValueError"),
            reports.describe(-1, job_of(6)).find("ValueError"))
      << "a first cause that told nothing hides nobody's reason";
}

TEST(EndReports, TellOfAnErrorOfHoraOnceAlsoIfSomeRanksHearOfItFromARankThatItEnded) {
  const EndReport cause{"hora::Error: 't1': rank 1 has left\n  Did you mean join?", "", "t\n"};
  const EndReport quoted{"hora::Error: rank 0 (pid 7) failed: uncaught " + cause.error, "", "t\n"};
  for (const bool cause_first : {true, false}) {
    EndReports reports;
    EXPECT_TRUE(reports.take(0, ends(cause_first ? cause : quoted))->shown);
    EXPECT_FALSE(reports.take(1, ends(cause_first ? quoted : cause))->shown);
    for (const int first : {0, 1}) {
      EXPECT_EQ(
          reports.describe(first, job_of(2)),
          "hrun: hora::Error: 't1': rank 1 has left\n  Did you mean join?\nhrun: this ended ranks 0 and 1\n");
    }
  }
}

TEST(EndReports, SayNothingOfARankThatEndedWellAllTheSame) {
  EndReports reports;
  reports.take(0, ends({"E: printed by the program", "a.py:7", ""}));
  JobSummary summary = job_of(1);
  summary.ranks.front().ending = Ending{0, "exited with code 0"};
  EXPECT_EQ(reports.describe(-1, summary), "");
}

TEST(EndReports, SayWhereTheLastOperationsAre) {
  EndReports reports;
  JobSummary summary = job_of(3);
  EXPECT_EQ(reports.describe_dumps(summary), "");
  reports.take(0, gave_up("rank 1 is gone\nmore", "/tmp/hora-1/rank0.json"));
  reports.take(2, gave_up("rank 1 is gone", "/tmp/hora-1/rank2.json"));
  EXPECT_EQ(reports.describe_dumps(summary),
            "hrun: hrun analyze /tmp/hora-1 compares what ranks 0 and 2 did last\n");
  for (auto& rank : summary.ranks) rank.ending = Ending{0, "exited with code 0"};
  EXPECT_THAT(reports.describe_dumps(summary),
              testing::StartsWith("hrun: the job failed, and all ranks ended well: rank 1 is gone\n"));
}

TEST(EndReports, OfAProcessThatWasReplacedCountForTheCommonErrorAlone) {
  EndReports reports;
  for (const int rank : {0, 1}) reports.take(rank, ends({"ValueError: bad", "train.py:31", ""}));
  EXPECT_TRUE(reports.is_common(1, {0, 1, 2}));
  reports.begin(0);
  EXPECT_EQ(reports.of(0), nullptr);
  EXPECT_FALSE(reports.is_common(0, {1, 2})) << "the new process has told nothing";
  EXPECT_TRUE(reports.is_common(1, {1, 2}));
  reports.forget_former(0);
  EXPECT_FALSE(reports.is_common(1, {0, 1, 2}));
}

TEST(EndReports, IgnoreWhatIsNoReport) {
  EndReports reports;
  EXPECT_FALSE(reports.take(0, {0, ReplyKind::arrived, {}}));
  EXPECT_FALSE(reports.take(0, {0, ReplyKind::ends, Bytes(1)}));
  EXPECT_FALSE(reports.take(0, {0, ReplyKind::gave_up, Bytes(1)}));
  EXPECT_EQ(reports.of(0), nullptr);
}

TEST(EndReports, TellOfEndingsThatAreAlikeTogether) {
  EXPECT_EQ(describe_endings({{1, {"", "exited with code 0"}},
                              {2, {" on b", "exited with code 0"}},
                              {3, {"", "exited with code 0"}}},
                             8),
            "hrun: ranks 1 and 3 exited with code 0\nhrun: rank 2 on b exited with code 0\n");
  EXPECT_EQ(describe_endings({{1, {"", "a"}}, {2, {"", "b"}}, {3, {"", "c"}}}, 1),
            "hrun: rank 1 a\nhrun: and 2 more ended by themselves\n");
}

}  // namespace
}  // namespace hora::hrun
