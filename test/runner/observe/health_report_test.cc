// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/health_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <regex>
#include <set>
#include <sstream>

namespace hora::hrun {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

/// Four ranks: two that do well, one that is stopped, one that has ended.
JobReport job() {
  JobReport job{"0123abcd", 4710, "a", {"./train", "--name=\"x\""}, 12.5, {}, {}};
  JobHealth health{152, 12.5, milliseconds(100), {}, 20, {}};
  health.lateness = {{0, microseconds(100), microseconds(2100), 0.25},
                     {2, microseconds(50'000), microseconds(70'000), 0.75}};
  health.longest = {{{"grad.7", "allreduce float32[3,4]", milliseconds(3200)}, 153, {2, 3}, 5}};
  job.health = health;
  const Health well{1042,     12'500'000,
                    "grad.6", milliseconds(100),
                    2,        {{"grad.7", "allreduce float32[3,4]", milliseconds(3200)}}};
  job.ranks = {{0, "a", 4711, "", 12.0, Presence::here, well},
               {1, "a", 4712, "", 12.0, Presence::here, Health()},
               {2, "b", 4713, "", 12.0, Presence::here, {}},
               {3, "b", 4714, "exited with code 3", 1.5, Presence::left, {}}};
  return job;
}

TEST(HealthReport, TellsPeopleWhatWaitsForWhom) {
  const std::string text = describe(job());
  EXPECT_THAT(text, HasSubstr("job 0123abcd: 4 ranks, started 12 s ago by hrun (pid 4710 on a): ./train"));
  EXPECT_THAT(text, HasSubstr("12.5 steps/s; 152 steps so far, the last one 0.1 s ago\n"));
  EXPECT_THAT(
      text, HasSubstr("waits for 3.2 s: 'grad.7' (allreduce float32[3,4], step 153); missing: ranks 2 and 3 "
                      "and 3 more\nand 19 more\n"));
}

TEST(HealthReport, TellsOfTheGenerationsOfAnElasticJob) {
  JobReport report = job();
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["generation"], nullptr);
  report.generation = {
      3, 4, 1, false, 2, 1, ChangeTimes{"rank 2 (pid 7) has left", 12.3, 0.0031, 0.009, 0.0312}};
  EXPECT_THAT(
      describe(report),
      HasSubstr(
          "\ngeneration 3: 3 ranks and 1 hot spare; 2 processes lost so far, 1 replaced\nthe last change, "
          "12.3 s ago: rank 2 (pid 7) has left; 3.1 ms to stop, 9.0 ms to connect, 31.2 ms in all "
          "to the next step\n"));
  const auto json = nlohmann::json::parse(to_json(report))["generation"];
  EXPECT_EQ(json["number"], 3);
  EXPECT_EQ(json["replaced"], 1);
  EXPECT_EQ(json["last_change"]["seconds_to_stop"], 0.0031);
  EXPECT_EQ(json["last_change"]["seconds_to_next_step"], 0.0312);
  EXPECT_THAT(to_prometheus(report), HasSubstr("\nhora_lost_processes_total 2\n"));
  report.generation = {5, 1, 0, true, 3, 1};
  EXPECT_THAT(describe(report), HasSubstr("\ngeneration 5: 1 rank, too few to go on; 3 processes"));
  report.generation = {0, 0, 0, false, 0, 0};
  EXPECT_THAT(describe(report), HasSubstr("\nThe ranks have not all joined yet.\n"));
}

TEST(HealthReport, HasARowForEachRank) {
  const std::string text = describe(job());
  const auto row = [&](const std::string& cells) {
    return std::regex_search(text, std::regex("\n" + cells + "\n"));
  };
  EXPECT_TRUE(
      row("0 +a +4711 +running +12\\.0 s +1042 +12\\.5 +grad\\.6 \\(0\\.1 s\\) +2: grad\\.7 \\(3\\.2 s\\) "
          "+0\\.1 ms +2\\.1 ms +25 %"))
      << text;
  EXPECT_TRUE(row("1 +a +4712 +running +12\\.0 s +0 +0\\.0 +- +0 +- +- +-")) << text;
  EXPECT_TRUE(row("2 +b +4713 +no answer +12\\.0 s +- +- +- +- +50\\.0 ms +70\\.0 ms +75 %")) << text;
  EXPECT_TRUE(row("3 +b +4714 +exited with code 3 +1\\.5 s +- +- +- +- +- +- +-")) << text;
}

TEST(HealthReport, SaysWhyThereIsNothingOfTheJob) {
  JobReport report = job();
  report.health.reset();
  EXPECT_THAT(describe(report), HasSubstr("Rank 0's engine is in an operation"));
  report.ranks[0].health.reset();
  EXPECT_THAT(describe(report), Not(HasSubstr("engine")));
  report.health = JobHealth();
  EXPECT_THAT(describe(report), HasSubstr("No step has been repeated yet."));
  report.ranks.resize(1);
  report.ranks[0] = {0, "a", 0, "", {}, Presence::absent, {}};
  EXPECT_THAT(describe(report), HasSubstr("1 rank, "));
  EXPECT_THAT(describe(report), HasSubstr("not started"));
}

TEST(HealthReport, SaysWhyARankIsSilent) {
  RankReport rank{2, "b", 4713, "", 1.0, Presence::absent, {}};
  EXPECT_EQ(why_silent(rank), "rank 2 (pid 4713 on b) has not called init yet");
  rank.presence = Presence::left;
  EXPECT_EQ(why_silent(rank), "rank 2 (pid 4713 on b) has called shutdown");
  rank.presence = Presence::here;
  EXPECT_EQ(why_silent(rank), "rank 2 (pid 4713 on b) does not answer: it is stopped, or its host is busy");
  rank.ending = "exited with code 0";
  EXPECT_EQ(why_silent(rank), "rank 2 (pid 4713 on b) exited with code 0");
  EXPECT_EQ(why_silent({2, "b", 0, "", {}, Presence::absent, {}}), "rank 2 on b was not started yet");
}

TEST(HealthReport, IsJsonWithAllKeysAlways) {
  const auto json = nlohmann::json::parse(to_json(job()));
  EXPECT_EQ(json["job"], "0123abcd");
  EXPECT_EQ(json["hrun"]["pid"], 4710);
  EXPECT_EQ(json["np"], 4);
  EXPECT_EQ(json["steps"]["count"], 152);
  EXPECT_EQ(json["operations_waiting"], 20);
  EXPECT_EQ(json["waiting"][0]["missing_ranks"], (std::vector<int>{2, 3}));
  EXPECT_EQ(json["waiting"][0]["missing"], 5);
  EXPECT_EQ(json["ranks"][0]["operations"], 1042);
  EXPECT_EQ(json["ranks"][0]["in_flight"][0]["seconds"], 3.2);
  EXPECT_EQ(json["ranks"][0]["lateness"]["p99_seconds"], 0.0021);
  EXPECT_EQ(json["ranks"][2]["answers"], false);
  EXPECT_EQ(json["ranks"][2]["state"], "no answer");
  EXPECT_EQ(json["ranks"][2]["running"], true);
  EXPECT_EQ(json["ranks"][2]["operations"], nullptr);
  EXPECT_EQ(json["ranks"][3]["running"], false);
  EXPECT_EQ(json["ranks"][1]["last_operation"], nullptr);
  EXPECT_EQ(json["ranks"][1]["lateness"], nullptr);
  for (const auto& rank : json["ranks"]) EXPECT_EQ(rank.size(), json["ranks"][0].size());
  JobReport report = job();
  report.health.reset();
  const auto less = nlohmann::json::parse(to_json(report));
  EXPECT_EQ(less.size(), json.size());
  EXPECT_EQ(less["waiting"], nullptr);
  report.command = {"./train", "\xff"};
  EXPECT_FALSE(nlohmann::json::parse(to_json(report)).is_discarded()) << "words need not be UTF-8";
}

TEST(HealthReport, IsTextThatPrometheusReads) {
  const std::regex help("# HELP (hora_[a-z0-9_]+) [^\n]+");
  const std::regex type("# TYPE (hora_[a-z0-9_]+) (gauge|counter|summary)");
  const std::regex sample(R"re((hora_[a-z0-9_]+)(\{([a-z_]+="([^"\\]|\\.)*",?)+\})? [-+.e0-9]+)re");
  JobReport report = job();
  report.command.front() = "tr\"a\\i\nn";
  const std::string text = to_prometheus(report);
  std::istringstream lines(text);
  std::string metric;
  std::set<std::string> metrics;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, help)) {
      metric = match[1];
      EXPECT_TRUE(metrics.insert(metric).second) << "twice: " << line;
    } else {
      ASSERT_TRUE(std::regex_match(line, match, type) || std::regex_match(line, match, sample)) << line;
      EXPECT_EQ(match[1], metric) << line;
    }
  }
  EXPECT_THAT(text, HasSubstr("\nhora_job_info{job_id=\"0123abcd\",program=\"tr\\\"a\\\\i\\nn\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nhora_operations_total{rank=\"0\",host=\"a\"} 1042\n"));
  EXPECT_THAT(text, HasSubstr("\nhora_rank_answers{rank=\"2\",host=\"b\"} 0\n"));
  EXPECT_THAT(text, Not(HasSubstr("hora_operations_total{rank=\"2\"")));
  EXPECT_THAT(text, HasSubstr("\nhora_lateness_seconds{rank=\"2\",host=\"b\",quantile=\"0.99\"} 0.07\n"));
  EXPECT_THAT(text, HasSubstr("\nhora_steps_total 152\n"));
  report.health.reset();
  EXPECT_THAT(to_prometheus(report), Not(HasSubstr("steps")));
}

}  // namespace
}  // namespace hora::hrun
