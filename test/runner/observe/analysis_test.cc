// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/analysis.h"

#include <gmock/gmock.h>

namespace hora::hrun {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

DumpedOperation operation(const std::string& name, double submitted = 1) {
  DumpedOperation operation;
  operation.name = name;
  operation.operation = "allreduce";
  operation.dtype = "float32";
  operation.shape = {3, 4};
  operation.submitted = submitted;
  return operation;
}

RankDump rank(int number, int size, const std::vector<std::string>& finished,
              const std::vector<DumpedOperation>& pending) {
  RankDump dump;
  dump.job = "0123abcd";
  dump.rank = number;
  dump.size = size;
  dump.pid = 100 + number;
  dump.host = "node7";
  dump.status = "aborted";
  dump.message = "it took too long";
  for (const auto& name : finished) {
    DumpedOperation done = operation(name);
    done.sequence = dump.finished.size() + 1;
    done.status = "ok";
    dump.finished.push_back(done);
  }
  dump.pending = pending;
  return dump;
}

TEST(Analyze, NamesTheRankThatNeverSubmittedWhatTheOthersWaitFor) {
  std::vector<RankDump> dumps;
  for (int i = 0; i < 4; ++i) {
    dumps.push_back(rank(i, 4, {"grad.5", "grad.6"}, {}));
    if (i != 2) dumps.back().pending = {operation("grad.7", i == 0 ? 12.34 : 12)};
    for (auto& done : dumps.back().finished) done.sequence += 1040;
  }
  const std::string report = analyze(dumps);
  EXPECT_THAT(report,
              StartsWith("rank 2 never submitted 'grad.7' (allreduce of float32 [3, 4]), which ranks "
                         "0-1, 3 submitted 12.3 s before the failure; its last finished operation was "
                         "'grad.6', the 1042nd.\n"));
  EXPECT_THAT(report, HasSubstr("\nranks 0-3 failed with: it took too long\n"));
}

TEST(Analyze, NamesWhatARankWaitsForInstead) {
  const std::string report =
      analyze({rank(0, 2, {}, {operation("a", 5), operation("b", 4)}), rank(1, 2, {}, {operation("c", 6)})});
  EXPECT_THAT(report,
              HasSubstr("rank 1 never submitted 'a' (allreduce of float32 [3, 4]), which rank 0 "
                        "submitted 5.0 s before the failure; it has finished no operation, and it waits "
                        "for 'c' instead, which no other rank submitted. Nor did it submit 'b'.\n"));
  EXPECT_THAT(report, HasSubstr("rank 0 never submitted 'c'"));
}

TEST(Analyze, NamesSeveralRanksThatLackTheSame) {
  const std::string report =
      analyze({rank(0, 3, {"x"}, {operation("y")}), rank(1, 3, {"x"}, {}), rank(2, 3, {"x"}, {})});
  EXPECT_THAT(report,
              StartsWith("ranks 1 and 2 never submitted 'y' (allreduce of float32 [3, 4]), which rank 0 "
                         "submitted 1.0 s before the failure.\n"));
}

TEST(Analyze, BeginsWithWhatWasWaitedForLongest) {
  const std::string report =
      analyze({rank(0, 2, {}, {operation("late", 1)}), rank(1, 2, {}, {operation("early", 9)})});
  EXPECT_LT(report.find("'early'"), report.find("'late'"));
}

TEST(Analyze, CountsWhatWasUnderWayWhenTheJobFailedAsNotFinished) {
  auto first = rank(0, 2, {"x"}, {});
  DumpedOperation broken = operation("y", 3);
  broken.sequence = 2;
  broken.status = "aborted";
  first.finished.push_back(broken);
  const std::string report = analyze({first, rank(1, 2, {"x"}, {})});
  EXPECT_THAT(report, StartsWith("rank 1 never submitted 'y'"));
  EXPECT_THAT(report, HasSubstr("\n0     node7  100  1         x "));
}

TEST(Analyze, TellsStepsOfOneNameApart) {
  const std::string report =
      analyze({rank(0, 2, {"w", "w"}, {operation("w")}), rank(1, 2, {"w", "w", "w"}, {})});
  EXPECT_THAT(report, Not(HasSubstr("never submitted"))) << "rank 1 is ahead";
  EXPECT_THAT(analyze({rank(0, 2, {"w", "w"}, {operation("w")}), rank(1, 2, {"w", "w"}, {})}),
              HasSubstr("rank 1 never submitted 'w'"));
}

TEST(Analyze, NamesDifferentTensors) {
  auto other = operation("w");
  other.shape = {3, 5};
  const std::string shapes =
      analyze({rank(0, 3, {}, {operation("w")}), rank(1, 3, {}, {other}), rank(2, 3, {}, {operation("w")})});
  EXPECT_THAT(shapes,
              StartsWith("The ranks disagree about 'w': it is allreduce of float32 [3, 5] on rank 1, and "
                         "allreduce of float32 [3, 4] on ranks 0 and 2.\n"));
  other = operation("w");
  other.dtype = "float64";
  EXPECT_THAT(
      analyze({rank(0, 2, {}, {operation("w")}), rank(1, 2, {}, {other})}),
      StartsWith("The ranks disagree about 'w': it is allreduce of float32 [3, 4] on rank 0, and allreduce "
                 "of float64 [3, 4] on rank 1.\n"));
  other = operation("w");
  other.operation = "broadcast";
  EXPECT_THAT(analyze({rank(0, 2, {}, {operation("w")}), rank(1, 2, {}, {other})}),
              HasSubstr("broadcast of"));
}

TEST(Analyze, NamesDifferentTensorsThatEndedSo) {
  auto first = rank(0, 2, {"w"}, {});
  auto second = rank(1, 2, {"w"}, {});
  first.finished[0].status = second.finished[0].status = "mismatch";
  second.finished[0].shape = {7};
  EXPECT_THAT(analyze({first, second}), StartsWith("The ranks disagree about 'w': "));
}

TEST(Analyze, LetsRanksBringDifferentRowsWhereTheyMay) {
  auto one = operation("g");
  auto other = operation("g");
  one.operation = other.operation = "allgather";
  other.shape = {9, 4};
  EXPECT_THAT(analyze({rank(0, 2, {}, {one}), rank(1, 2, {}, {other})}), Not(HasSubstr("disagree")));
  other.shape = {9, 5};
  EXPECT_THAT(analyze({rank(0, 2, {}, {one}), rank(1, 2, {}, {other})}),
              HasSubstr("allgather of float32 [n, 4] on rank 0, and allgather of float32 [n, 5] on rank 1"));
}

TEST(Analyze, NamesRanksWithoutADump) {
  const std::string report =
      analyze({rank(0, 4, {"x"}, {operation("y")}), rank(3, 4, {"x"}, {operation("y")})});
  EXPECT_THAT(report,
              StartsWith("ranks 1 and 2 left no dump: they died before they could write one, or wrote it "
                         "on another host.\n"));
  EXPECT_THAT(report, AllOf(Not(HasSubstr("never submitted")), Not(HasSubstr("All ranks submitted"))));
  EXPECT_THAT(report,
              HasSubstr("\n1     -      -    -         -              -        -                no dump\n"));
  EXPECT_THAT(analyze({rank(0, 2, {}, {})}), StartsWith("rank 1 left no dump: it died before it could"));
}

TEST(Analyze, SaysThatAllSubmittedWhatDidNotFinish) {
  EXPECT_THAT(
      analyze({rank(0, 2, {}, {operation("y", 120)}), rank(1, 2, {}, {operation("y", 119)})}),
      StartsWith("All ranks submitted 'y', the first 120.0 s before the failure, and it did not finish"));
}

TEST(Analyze, NamesWhereRanksFirstDidSomethingElse) {
  EXPECT_THAT(analyze({rank(0, 2, {"a", "b", "c"}, {}), rank(1, 2, {"a", "x", "c"}, {})}),
              StartsWith("The 2nd operation of all ranks was 'b' on rank 0 and 'x' on rank 1.\n"));
}

TEST(Analyze, DoesNotCompareTheOrderWhereARankHasJoinedOrMoreWasDoneThanIsKept) {
  auto joined = rank(1, 2, {"a", "x"}, {});
  joined.finished[1].operation = "join";
  EXPECT_THAT(analyze({rank(0, 2, {"a", "b"}, {}), joined}), Not(HasSubstr("operation of all ranks")));
  auto later = rank(1, 2, {"b", "c"}, {});
  for (auto& done : later.finished) ++done.sequence;
  EXPECT_THAT(analyze({rank(0, 2, {"a", "b", "c"}, {}), later}), Not(HasSubstr("operation of all ranks")));
}

TEST(Analyze, LooksOnlyAtTheMembersOfAProcessSet) {
  auto in_set = operation("s");
  in_set.process_set = 2;
  auto member = rank(1, 3, {"t"}, {});
  member.finished[0].process_set = 2;
  const std::string report = analyze({rank(0, 3, {}, {in_set}), member, rank(2, 3, {}, {})});
  EXPECT_THAT(report,
              StartsWith("rank 1 never submitted 's' (allreduce of float32 [3, 4], process set 2), which "
                         "rank 0 submitted"));
}

TEST(Analyze, SaysWhyEachRankFailed) {
  auto cause = rank(0, 3, {}, {});
  cause.message = "ValueError: bad batch (train.py:31)";
  const std::string report = analyze({cause, rank(1, 3, {}, {}), rank(2, 3, {}, {})});
  EXPECT_THAT(report, AllOf(HasSubstr("rank 0 failed with: ValueError: bad batch (train.py:31)\n"),
                            HasSubstr("ranks 1 and 2 failed with: it took too long\n")));
}

TEST(Analyze, SaysThatNothingIsWrongWithRanksThatWereAsked) {
  std::vector<RankDump> dumps{rank(0, 2, {"a"}, {}), rank(1, 2, {"a"}, {})};
  for (auto& dump : dumps) dump.status = "ok";
  EXPECT_THAT(analyze(dumps), StartsWith("The ranks did the same, and none of them waits for anything.\n"));
  dumps[0].pending = {operation("b", 2)};
  EXPECT_THAT(analyze(dumps),
              HasSubstr("which rank 0 submitted 2.0 s before the dump; its last finished operation "
                        "was 'a', the 1st."));
}

TEST(Analyze, NamesFewOfManyOperations) {
  std::vector<DumpedOperation> many;
  for (int i = 0; i < 12; ++i) many.push_back(operation("p" + std::to_string(i), 20 - i));
  EXPECT_THAT(analyze({rank(0, 2, {}, many), rank(1, 2, {}, {})}),
              HasSubstr("Nor did it submit 'p1', 'p2', 'p3', 'p4', 'p5' and 6 more.\n"));
}

TEST(Analyze, ShowsATableOfAllRanks) {
  auto second = rank(1, 2, {"a"}, {operation(std::string(50, 'n'), 2)});
  second.host = "a-longer-name";
  const std::string report = analyze({rank(0, 2, {"a", "b"}, {}), second});
  EXPECT_THAT(report,
              HasSubstr("\n\nrank  host           pid  finished  last finished  waiting  waiting longest"
                        "                                   status\n"
                        "0     node7          100  2         b              0        -"
                        "                                                 aborted\n"
                        "1     a-longer-name  101  1         a              1        "
                        "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn... "
                        "(2.0 s)  aborted\n"));
}

}  // namespace
}  // namespace hora::hrun
