// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/loop.h"

#include "core/backend/local/local_group.h"

#include <gtest/gtest.h>

#include <cstdlib>
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

}  // namespace
}  // namespace hora
