// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/timeline.h"

#include "test/support/local_job.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

namespace hora {
namespace {

class TimelineTest : public testing::Test {
 protected:
  ~TimelineTest() override { std::filesystem::remove(path_); }

  /// The ranks whose allreduces of this name are in the file.
  [[nodiscard]] std::set<int> ranks_of(const std::string& tensor) const {
    const auto events = nlohmann::json::parse(std::ifstream(path_));
    std::set<std::pair<int, int>> rows;
    std::set<int> ranks;
    for (const auto& event : events) {
      if (event["name"] == "thread_name" && event["args"]["name"] == tensor)
        rows.emplace(event["pid"], event["tid"]);
    }
    for (const auto& event : events) {
      if (event["name"] == "ALLREDUCE" && rows.contains({event["pid"], event["tid"]}))
        ranks.insert(event["pid"].get<int>());
    }
    return ranks;
  }

  static void reduce(Runtime& hora, const std::string& name) {
    std::vector<float> data(1000, 1);
    hora.submit(in_place(Operation::allreduce, name, DType::float32, data)).wait();
  }

  std::string path_ = testing::TempDir() + "hora-timeline-" + std::to_string(::getpid()) + ".json";
};

TEST_F(TimelineTest, HasAllRanksWhenItIsStopped) {
  run_local_job(3, [this](Runtime& hora) {
    for (int round = 0; round < 3; ++round) {
      hora.start_timeline(path_, true);
      if (hora.rank() == 0) {
        EXPECT_THROW(hora.start_timeline(path_), Error) << "one at a time";
      }
      for (int i = 0; i < 20; ++i) reduce(hora, "w");
      reduce(hora, "last");
      hora.stop_timeline();
      if (hora.rank() == 0) {
        EXPECT_EQ(ranks_of("w"), (std::set<int>{0, 1, 2}));
        EXPECT_EQ(ranks_of("after"), (std::set<int>{}));
      }
      reduce(hora, "after");
    }
    hora.stop_timeline();  // there is none
  });
}

TEST_F(TimelineTest, IsWholeWhenTheJobEnds) {
  run_local_job(2, [this](Runtime& hora) {
    hora.start_timeline(path_);
    reduce(hora, "first");
    reduce(hora, "w");
  });
  EXPECT_EQ(ranks_of("w"), (std::set<int>{0, 1}));
}

TEST_F(TimelineTest, CanBeStoppedWhenOtherRanksHaveLeft) {
  run_local_job(3, [this](Runtime& hora) {
    hora.start_timeline(path_);
    reduce(hora, "w");
    if (hora.rank() == 0) hora.stop_timeline();
  });
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(TimelineTest, EndsWithAJobThatFails) {
  testing::internal::CaptureStderr();
  std::barrier both(2);
  run_local_job(2, [&](Runtime& hora) {
    hora.start_timeline(path_);
    reduce(hora, "w");
    both.arrive_and_wait();  // a failure may end what another rank has not finished
    hora.shutdown(hora.rank() == 1 ? "no data" : "");
    if (hora.rank() == 0) {
      EXPECT_THROW(hora.start_timeline(path_), Error) << "the job has ended";
    }
    hora.stop_timeline();
  });
  testing::internal::GetCapturedStderr();
  EXPECT_TRUE(ranks_of("w").contains(0));
}

}  // namespace
}  // namespace hora
