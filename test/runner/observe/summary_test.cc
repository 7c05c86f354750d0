// SPDX-License-Identifier: Apache-2.0
#include "runner/observe/summary.h"

#include <hora/status.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace hora::hrun {
namespace {

using Json = nlohmann::json;

JobSummary summary() {
  const WallTime start = WallTime() + std::chrono::milliseconds(1'500);
  JobSummary summary;
  summary.command = {"./train", "--epochs", "3"};
  summary.hosts = {"a"};
  summary.exit_code = 137;
  summary.first_cause = "rank 1 (pid 12 on a) was killed by signal 9 (Killed)";
  RankSummary rank;
  rank.host = "a";
  rank.pid = 11;
  rank.ending = Ending{1, "exited with code 1"};
  rank.started = start;
  rank.ended = start + std::chrono::milliseconds(250);
  rank.output_lines = 3;
  rank.error_lines = 2;
  rank.last_words = "rank 1 is gone \xFF";
  rank.reason = "ValueError: bad batch";
  rank.where = "train.py:31 in step";
  summary.ranks.push_back(rank);
  rank.rank = 1;
  rank.pid = 12;
  rank.ending = Ending{137, "was killed by signal 9 (Killed)", 9};
  rank.first_cause = true;
  rank.lost = true;
  summary.ranks.push_back(rank);
  return summary;
}

TEST(JobSummary, SaysEverythingInJson) {
  const auto json = Json::parse(to_json(summary()));
  EXPECT_EQ(json["command"], (Json{"./train", "--epochs", "3"}));
  EXPECT_EQ(json["np"], 2);
  EXPECT_EQ(json["hosts"], Json{"a"});
  EXPECT_EQ(json["exit_code"], 137);
  EXPECT_EQ(json["generation"], nullptr);
  EXPECT_EQ(json["changes"], nlohmann::json::array());
  EXPECT_EQ(json["ranks"][0]["lost"], false);
  EXPECT_EQ(json["ranks"][1]["lost"], true);
  EXPECT_EQ(json["first_cause"], "rank 1 (pid 12 on a) was killed by signal 9 (Killed)");
  const auto& first = json["ranks"][0];
  EXPECT_EQ(first["pid"], 11);
  EXPECT_EQ(first["exit_code"], 1);
  EXPECT_EQ(first["signal"], nullptr);
  EXPECT_EQ(first["started"], "1970-01-01T00:00:01.500Z");
  EXPECT_EQ(first["ended"], "1970-01-01T00:00:01.750Z");
  EXPECT_EQ(first["seconds"], 0.25);
  EXPECT_EQ(first["lines"], (Json{{"stdout", 3}, {"stderr", 2}}));
  EXPECT_EQ(first["last_words"], "rank 1 is gone \xEF\xBF\xBD");
  EXPECT_EQ(first["reason"], "ValueError: bad batch");
  EXPECT_EQ(first["where"], "train.py:31 in step");
  EXPECT_EQ(json["ranks"][1]["exit_code"], nullptr);
  EXPECT_EQ(json["ranks"][1]["signal"], 9);
  EXPECT_EQ(json["ranks"][1]["first_cause"], true);
}

TEST(JobSummary, SaysThatARankWasLostWithItsHost) {
  JobSummary lost = summary();
  lost.ranks[0].ending.reset();
  lost.ranks[0].ended.reset();
  const auto rank = Json::parse(to_json(lost))["ranks"][0];
  for (const char* unknown : {"exit_code", "signal", "ended", "seconds"}) EXPECT_EQ(rank[unknown], nullptr);
  EXPECT_EQ(rank["how"], "was lost with its host");
}

TEST(JobSummary, IsWrittenWholeOrNotAtAll) {
  const auto folder =
      std::filesystem::path(testing::TempDir()) / ("hora-summary-" + std::to_string(::getpid()));
  EXPECT_THROW(write_summary(summary(), folder / "none"), Error);
  std::filesystem::create_directory(folder);
  write_summary(summary(), folder);
  write_summary(summary(), folder);
  EXPECT_EQ(Json::parse(std::ifstream(folder / "summary.json"))["np"], 2);
  const auto begin = std::filesystem::directory_iterator(folder);
  EXPECT_EQ(std::distance(begin, {}), 1) << "nothing unfinished is left";
  std::filesystem::remove_all(folder);
  EXPECT_THROW(write_summary(summary(), "/proc"), Error);
}

}  // namespace
}  // namespace hora::hrun
