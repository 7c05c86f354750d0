// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/loop.h"

#include "core/backend/local/local_group.h"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace hora {
namespace {

TEST(Loop, EndsWhenAllHaveLeftAndGivesBackWhatNobodyAskedFor) {
  LocalGroup group(2);
  World worlds[] = {group.join(0), group.join(1)};
  const Config config;
  TensorTable tables[2];
  ProcessSets sets[] = {ProcessSets(2), ProcessSets(2)};
  Timeline timelines[] = {Timeline(2), Timeline(2)};
  Delays delays[2];
  OwnGpu gpus[] = {OwnGpu(0), OwnGpu(1)};
  Loop loops[] = {{worlds[0], config, tables[0], sets[0], timelines[0], delays[0], gpus[0]},
                  {worlds[1], config, tables[1], sets[1], timelines[1], delays[1], gpus[1]}};
  Entry entry;
  entry.name = "late";
  loops[0].leave("");
  loops[1].leave("");
  std::thread other([&] { loops[1].run(); });
  loops[0].run();
  other.join();
  EXPECT_THROW(tables[0].put(entry, {}, {}), Error);
}

TEST(Loop, FailsInOrderWhenThereIsNoTemporaryDirectory) {
  LocalGroup group(2);
  World world = group.join(0);
  const Config config;
  TensorTable table;
  ProcessSets sets(2);
  Timeline timeline(2);
  Delays delays;
  OwnGpu gpu(0);
  Loop loop(world, config, table, sets, timeline, delays, gpu);
  Entry entry;
  entry.name = "x";
  Request request;
  request.name = entry.name;
  const Handle handle = table.put(entry, {kWorld, request}, {});
  group.lose(1, "its process ended");
  const char* former = std::getenv("TMPDIR");
  const std::string kept = former == nullptr ? "" : former;
  ::setenv("TMPDIR", "/there/is/no/such/directory", 1);
  testing::internal::CaptureStderr();
  loop.run();
  const std::string text = testing::internal::GetCapturedStderr();
  if (former == nullptr) {
    ::unsetenv("TMPDIR");
  } else {
    ::setenv("TMPDIR", kept.c_str(), 1);
  }
  EXPECT_TRUE(handle.poll());
  EXPECT_NE(text.find("rank 1 is gone: its process ended"), std::string::npos) << text;
}

/// A rank of two, alone with its loop, and what it has written down.
class LoopsDump : public testing::Test {
 protected:
  LoopsDump() {
    config_.dump_directory = folder_;
    Entry entry;
    entry.name = "x";
    entry.shape = {2, 3};
    Request request;
    request.name = entry.name;
    table_.put(entry, {kWorld, request}, Clock::now());
  }
  ~LoopsDump() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] nlohmann::json written() const {
    return nlohmann::json::parse(std::ifstream(folder_ / "rank0.json"));
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) / ("hora-loop-" + std::to_string(::getpid()));
  LocalGroup group_{2};
  World world_ = group_.join(0);
  Config config_;
  TensorTable table_;
  ProcessSets sets_{2};
  Timeline timeline_{2};
  Delays delays_;
  OwnGpu gpu_{0};
  Loop loop_{world_, config_, table_, sets_, timeline_, delays_, gpu_};
};

TEST_F(LoopsDump, IsWrittenWhenSomebodyAsksForIt) {
  loop_.dump("a signal asks for it");
  const auto dump = written();
  EXPECT_EQ(dump["status"], "ok");
  EXPECT_EQ(dump["message"], "a signal asks for it");
  EXPECT_EQ(dump["pending"][0]["name"], "x");
  EXPECT_EQ(dump["pending"][0]["shape"], (std::vector<int>{2, 3}));
}

TEST_F(LoopsDump, IsWrittenAlsoByARankThatIsLeaving) {
  loop_.leave("");
  group_.lose(1, "its process ended");  // which it hears when it has asked to leave
  loop_.run();
  const auto dump = written();
  EXPECT_EQ(dump["status"], "aborted");
  EXPECT_EQ(dump["message"], "rank 1 is gone: its process ended");
  EXPECT_EQ(dump["pending"][0]["name"], "x");
}

}  // namespace
}  // namespace hora
