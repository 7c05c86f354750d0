// SPDX-License-Identifier: Apache-2.0
#include "core/watch/recorder.h"

#include <gtest/gtest.h>
#include <unistd.h>

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
  Dump dump{"0123abcd",    {1, 42, "node", {}}, 2,  {Code::aborted, "rank 0 is \"gone\"\n"},
            {record("w")}, {record("late")},    now};
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

TEST(WriteDump, WritesAFilePerRankAndRefusesLinks) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("hora-dump-" + std::to_string(::getpid()));
  const std::string path = write_dump(dump(), folder);
  EXPECT_EQ(path, (folder / "rank1.json").string());
  EXPECT_TRUE(nlohmann::json::parse(std::ifstream(path)).contains("finished"));
  EXPECT_EQ(write_dump(dump(), folder), path);
  EXPECT_FALSE(std::filesystem::exists(path + ".part"));
  const auto link = folder.string() + "-link";
  std::filesystem::create_symlink(folder, link);
  EXPECT_THROW(write_dump(dump(), link), Error);
  std::filesystem::remove(link);
  std::filesystem::remove_all(folder);
  EXPECT_THROW(write_dump(dump(), "/nonexistent/folder"), Error);
}

}  // namespace
}  // namespace hora
