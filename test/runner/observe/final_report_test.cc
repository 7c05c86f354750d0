// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/final_report.h"

#include "runner/streams/relay.h"
#include "runner/streams/standard_input.h"

#include <gtest/gtest.h>

#include <utility>

namespace hora::hrun {
namespace {

/// Output that has ended.
class NoOutput final : public OutputSource {
 public:
  [[nodiscard]] int fd() const override { return -1; }
  [[nodiscard]] bool ready() const override { return false; }
  std::size_t read(std::span<char> /*into*/) override { return 0; }
  [[nodiscard]] bool ended() const override { return true; }
  void expect_no_more() override {}
};

/// A job on hosts a (ranks 0 and 1) and b (rank 2) that has ended.
struct EndedJob {
  EndedJob() {
    options.ranks = 3;
    options.shares = place({{"a", 2}, {"b", 1}}, 3, false);
    state.started = true;
    summary.hosts = {"a", "b"};
    for (int rank = 0; rank < 3; ++rank) {
      RankSummary& known = summary.ranks.emplace_back();
      known.rank = rank;
      known.host = rank < 2 ? "a" : "b";
      known.pid = 100 + rank;
      relay.add(none, none);
    }
  }
  void ends(int rank, const Ending& ending) {
    const Failure end{rank, rank < 2 ? 0 : 1, ending, TimePoint(std::chrono::seconds(++time))};
    summary.ranks[static_cast<std::size_t>(rank)].ending = ending;
    add(end);
  }
  void loses_host(int host) { add({-1, host, {255, "no word from it", 0}, TimePoint{}}); }
  void add(const Failure& end) {
    state.endings.push_back(end);
    if (end.ending.exit_code != 0) state.cause.accuse(end);
  }
  [[nodiscard]] JobEnd end() const { return {state, reports, relay, input, log}; }
  [[nodiscard]] std::string report() const { return final_report(end(), summary); }

  int time = 0;
  Options options;
  JobSummary summary;
  std::shared_ptr<NoOutput> none = std::make_shared<NoOutput>();
  Relay relay{options};
  StandardInput input{std::nullopt};
  JobLog log{options, summary, relay};
  EndReports reports;
  JobState state{JobPolicy{}};
};

const Ending kDone{0, "exited with code 0", 0};
const Ending kFailed{7, "exited with code 7", 0};
const Ending kFailedInTurn{1, "exited with code 1", 0};

TEST(FinalReport, SaysNothingOfAJobThatWasWell) {
  EndedJob job;
  for (const int rank : {0, 1, 2}) job.ends(rank, kDone);
  EXPECT_EQ(job.report(), "");
}

TEST(FinalReport, NamesTheFirstRankThatFailedAndTheOthers) {
  EndedJob job;
  job.ends(2, kFailed);
  job.ends(0, kFailedInTurn);
  job.ends(1, kDone);
  testing::internal::CaptureStderr();
  job.relay.add_errors(2, "bad batch\n", true);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(job.report(),
            "\nhrun: rank 2 (pid 102 on b) failed first: it exited with code 7\n"
            "hrun: rank 0 on a exited with code 1\n"
            "hrun: rank 1 on a exited with code 0\n"
            "hrun: the last it wrote to stderr:\n"
            "  bad batch\n");
}

TEST(FinalReport, SaysTheReasonThatARankToldInsteadOfItsLastLines) {
  EndedJob job;
  job.ends(0, kFailed);
  job.reports.take(0, {0, ReplyKind::ends, encode(EndReport{"ValueError: bad batch", "a.py:3", "trace\n"})});
  testing::internal::CaptureStderr();
  job.relay.add_errors(0, "trace\n", true);
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(job.report(),
            "\nhrun: rank 0 (pid 100 on a) failed first: it exited with code 7\n"
            "hrun: ValueError: bad batch\n"
            "hrun: rank 0 at a.py:3\n");
}

TEST(FinalReport, NamesAHostThatIsLostAsTheCauseOrBesideIt) {
  EndedJob cause;
  cause.loses_host(1);
  EXPECT_EQ(cause.report(), "\nhrun: host b is lost, and with it rank 2: no word from it\n");
  EndedJob other;
  other.ends(0, {139, "was killed by signal 11", 11});
  other.add({-1, 1, {255, "no word from it", 0}, TimePoint(std::chrono::seconds(2))});
  EXPECT_EQ(other.report(),
            "\nhrun: rank 0 (pid 100 on a) failed first: it was killed by signal 11\n"
            "hrun: host b is lost, and with it rank 2: no word from it\n");
}

TEST(FinalReport, CompletesTheSummary) {
  EndedJob job;
  job.ends(1, kFailed);
  job.reports.take(1, {0, ReplyKind::ends, encode(EndReport{"ValueError: bad batch", "a.py:3", ""})});
  complete(job.summary, job.end(), 7);
  EXPECT_EQ(job.summary.exit_code, 7);
  EXPECT_EQ(job.summary.first_cause, "rank 1 (pid 101 on a) exited with code 7");
  EXPECT_TRUE(job.summary.ranks[1].first_cause);
  EXPECT_FALSE(job.summary.ranks[0].first_cause);
  EXPECT_EQ(job.summary.ranks[1].reason, "ValueError: bad batch");
  EXPECT_EQ(job.summary.ranks[1].where, "a.py:3");
}

}  // namespace
}  // namespace hora::hrun
