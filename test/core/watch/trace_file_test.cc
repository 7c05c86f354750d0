// SPDX-License-Identifier: Apache-2.0
#include "core/watch/trace_file.h"

#include "test/core/watch/members.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace hora {
namespace {

using std::chrono::microseconds;

class TraceFileTest : public testing::Test {
 protected:
  ~TraceFileTest() override { std::filesystem::remove(path_); }

  [[nodiscard]] nlohmann::json read() const { return nlohmann::json::parse(std::ifstream(path_)); }

  /// The events of this name, by rank.
  static std::map<int, nlohmann::json> named(const nlohmann::json& events, const std::string& name) {
    std::map<int, nlohmann::json> found;
    for (const auto& event : events) {
      if (event["name"] == name) found[event["pid"].get<int>()] = event;
    }
    return found;
  }

  static TracePart part(TimePoint now, std::int64_t wall) {
    Traced traced;
    traced.record.name = "gradient.\"w\"";
    traced.record.shape = {2, 3};
    traced.record.submitted = now - microseconds(400);
    traced.record.decided = now - microseconds(300);
    traced.record.started = now - microseconds(250);
    traced.record.finished = now - microseconds(100);
    traced.together = 2;
    traced.spans = {{Stage::pack, now - microseconds(250), now - microseconds(240)},
                    {Stage::transfer, now - microseconds(240), now - microseconds(110)}};
    return {now, wall, {traced}, {now - microseconds(300)}, false};
  }

  std::string path_ = testing::TempDir() + "hora-trace-" + std::to_string(::getpid()) + ".json";
};

TEST_F(TraceFileTest, ShowsWhatEachRankDidToEachTensor) {
  {
    TraceFile file(path_, kMembers, 0);
    EXPECT_EQ(named(read(), "process_name").size(), 3u) << "whole JSON from the beginning";
    const TimePoint now = Clock::now();
    file.add(0, part(now, 0));
    file.add(1, part(now, 0));
  }
  const auto events = read();
  for (const char* name : {"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "WAIT", "PACK", "TRANSFER", "CYCLE_START"})
    EXPECT_EQ(named(events, name).size(), 2u) << name;
  const auto allreduce = named(events, "ALLREDUCE")[1];
  EXPECT_EQ(allreduce["args"]["shape"], "[2, 3]");
  EXPECT_EQ(allreduce["args"]["tensors_in_batch"], 2);
  EXPECT_NEAR(allreduce["dur"].get<double>(), 200, 0.01);
  EXPECT_EQ(named(events, "thread_name")[1]["args"]["name"], "gradient.\"w\"");
  EXPECT_EQ(named(events, "PACK")[0]["tid"], named(events, "TRANSFER")[0]["tid"]) << "one row for a tensor";
  EXPECT_EQ(named(events, "ALLREDUCE")[0]["ts"], allreduce["ts"]) << "one clock on one host";
}

TEST_F(TraceFileTest, PlacesOtherHostsByTheTimeOfDay) {
  {
    TraceFile file(path_, kMembers, 0);
    const auto wall = std::chrono::system_clock::now().time_since_epoch();
    // Rank 2 was started an hour later, so that its clock reads less.
    file.add(2, part(Clock::now() - std::chrono::hours(1), std::chrono::nanoseconds(wall).count()));
  }
  const auto begins = named(read(), "ALLREDUCE")[2]["ts"].get<double>();
  EXPECT_GT(begins, -1000);
  EXPECT_LT(begins, 10e6);
}

TEST_F(TraceFileTest, SaysWhyItCannotBeWritten) {
  try {
    const TraceFile file("/there/is/no/such/directory/x.json", kMembers, 0);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "cannot write the timeline /there/is/no/such/directory/x.json: No such file or directory");
  }
}

}  // namespace
}  // namespace hora
