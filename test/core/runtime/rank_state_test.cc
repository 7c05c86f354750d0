// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/rank_state.h"

#include "core/backend/local/local_group.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace hora {
namespace {

/// A rank of two with one tensor under way, and what it has written down.
class RankStateTest : public testing::Test {
 protected:
  RankStateTest() {
    config_.dump_directory = folder_;
    Entry entry;
    entry.name = "x";
    entry.shape = {2, 3};
    Request request;
    request.name = entry.name;
    table_.put(std::move(entry), {kWorld, request}, Clock::now());
  }
  ~RankStateTest() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] nlohmann::json written() const {
    return nlohmann::json::parse(std::ifstream(folder_ / "rank0.json"));
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("hora-report-" + std::to_string(::getpid()));
  local::LocalGroup group_{2};
  World world_ = group_.join(0);
  Config config_;
  TensorTable table_;
  ProcessSets sets_{2};
  Messages messages_{*world_.messenger, 0, sets_};
  Recorder recorder_{10};
  RankState state_{world_, config_, table_, messages_, recorder_};
};

TEST_F(RankStateTest, DumpsTheReasonAndWhatIsUnderWay) {
  testing::internal::CaptureStderr();
  state_.dump("a signal asks for it");
  testing::internal::GetCapturedStderr();
  const auto dump = written();
  EXPECT_EQ(dump["status"], "ok");
  EXPECT_EQ(dump["message"], "a signal asks for it");
  EXPECT_EQ(dump["pending"][0]["name"], "x");
  EXPECT_EQ(dump["pending"][0]["shape"], (std::vector<int>{2, 3}));
}

TEST_F(RankStateTest, ReturnsThePathOfADump) {
  EXPECT_EQ(state_.write_dump("hrun dump asks for it"), folder_ / "rank0.json");
  EXPECT_EQ(written()["message"], "hrun dump asks for it");
}

TEST_F(RankStateTest, SaysWhyADumpCouldNotBeWritten) {
  config_.dump_directory = "/there/is/no/such/directory";
  testing::internal::CaptureStderr();
  state_.dump("a signal asks for it");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("a signal asks for it; "), std::string::npos) << text;
  EXPECT_NE(text.find("/there/is/no/such/directory"), std::string::npos) << text;
}

TEST_F(RankStateTest, TellsOfWhatIsUnderWay) {
  const Health health = state_.health();
  EXPECT_EQ(health.finished, 0u);
  EXPECT_EQ(health.last, "");
  EXPECT_EQ(health.in_flight, 1u);
  ASSERT_EQ(health.oldest.size(), 1u);
  EXPECT_EQ(health.oldest.front().name, "x");
  EXPECT_EQ(health.oldest.front().what, "allreduce float32[2,3]");
}

TEST_F(RankStateTest, TellsOfTheOperationThatFinishedLast) {
  Record record;
  record.name = "y";
  record.finished = Clock::now() - std::chrono::seconds(2);
  recorder_.add(record);
  const Health health = state_.health();
  EXPECT_EQ(health.finished, 1u);
  EXPECT_EQ(health.last, "y");
  EXPECT_GE(health.since_last, std::chrono::seconds(2));
  const Account account = state_.account();
  EXPECT_EQ(account.finished, 1u);
  EXPECT_EQ(account.last, "y");
}

}  // namespace
}  // namespace hora
