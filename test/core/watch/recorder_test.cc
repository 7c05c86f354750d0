// SPDX-License-Identifier: Apache-2.0
#include "core/watch/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace hora {
namespace {

Record record(const std::string& name) {
  Record record;
  record.name = name;
  record.shape = {2, 3};
  return record;
}

TEST(Recorder, KeepsTheLastOperationsInOrder) {
  Recorder recorder(3);
  for (const char* name : {"a", "b", "c", "d", "e"}) recorder.add(record(name));
  const auto kept = recorder.records();
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].name, "c");
  EXPECT_EQ(kept[2].name, "e");
  EXPECT_EQ(kept[0].sequence, 3u);
  EXPECT_EQ(kept[2].sequence, 5u);
  EXPECT_EQ(recorder.last()->name, "e");
  EXPECT_FALSE(Recorder(3).last());
  Recorder none(0);
  none.add(record("x"));
  EXPECT_FALSE(none.on());
  EXPECT_FALSE(none.last());
}

TEST(Recorder, CountsTheBytesOfTensors) {
  Recorder recorder(1);
  for (int i = 0; i < 3; ++i) recorder.add(record("w"));
  EXPECT_EQ(recorder.bytes(), 3 * 2 * 3 * 4u);
  Record barrier = record("barrier");
  barrier.operation = Operation::barrier;
  recorder.add(barrier);
  EXPECT_EQ(recorder.bytes(), 3 * 2 * 3 * 4u);
}

Dump dump() {
  const TimePoint now = TimePoint() + std::chrono::seconds(10);
  Dump dump{"0123abcd",
            {1, 42, "node", {}},
            2,
            {Code::aborted, "rank 0 is \"gone\"\n"},
            {record("w")},
            {record("late")},
            {{false, 1, -1, "a tensor", 0, std::chrono::seconds(2)}},
            now};
  dump.records[0].sequence = 9;
  dump.records[0].process_set = 2;
  dump.records[0].finished = now - std::chrono::milliseconds(1500);
  return dump;
}

TEST(ToJson, IsJsonThatSaysEverything) {
  const auto json = nlohmann::json::parse(to_json(dump()));
  EXPECT_EQ(json["job"], "0123abcd");
  EXPECT_EQ(json["rank"], 1);
  EXPECT_EQ(json["message"], "rank 0 is \"gone\"\n");
  EXPECT_EQ(json["finished"][0]["name"], "w");
  EXPECT_EQ(json["finished"][0]["shape"], (std::vector<int>{2, 3}));
  EXPECT_EQ(json["finished"][0]["finished"], 1.5);
  EXPECT_EQ(json["finished"][0]["sequence"], 9);
  EXPECT_EQ(json["finished"][0]["process_set"], 2);
  EXPECT_EQ(json["pending"][0]["process_set"], 0);
  EXPECT_EQ(json["pending"][0]["name"], "late");
}

class WriteDump : public testing::Test {
 protected:
  WriteDump() { std::filesystem::create_directory(temporary_); }
  ~WriteDump() override { std::filesystem::remove_all(temporary_); }

  const std::filesystem::path temporary_ =
      std::filesystem::path(testing::TempDir()) / ("hora-dump-" + std::to_string(::getpid()));
};

TEST_F(WriteDump, WritesAFilePerRankForItsUserAlone) {
  const Folder folder = Folder::named(temporary_ / "named");
  const std::string path = write_dump(dump(), folder);
  EXPECT_EQ(path, (temporary_ / "named/rank1.json").string());
  EXPECT_TRUE(nlohmann::json::parse(std::ifstream(path)).contains("finished"));
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(write_dump(dump(), folder), path);
}

TEST_F(WriteDump, KeepsTheDumpsOfTheTenJobsThatFailedLast) {
  for (int job = 0; job < 12; ++job) {
    const std::string id = "job" + std::to_string(job);
    write_dump(dump(), folder_of_job(temporary_, id));
    for (int rank = 0; rank < 3; ++rank) static_cast<void>(folder_of_job(temporary_, id));  // of the same job
    std::filesystem::last_write_time(
        folder_of_job(temporary_, id).path(),
        std::filesystem::file_time_type::clock::now() - std::chrono::hours(50 - job));
  }
  const auto all = std::filesystem::path(folder_of_job(temporary_, "job11").path()).parent_path();
  EXPECT_EQ(all, temporary_ / ("hora-" + std::to_string(::geteuid())) / "dumps");
  for (int job = 0; job < 12; ++job)
    EXPECT_EQ(std::filesystem::exists(all / ("job" + std::to_string(job)) / "rank1.json"), job >= 2) << job;
}

}  // namespace
}  // namespace hora
