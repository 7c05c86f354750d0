// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/loop.h"

#include "core/backend/local/local_group.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

TEST(Loop, EndsWhenAllHaveLeftAndGivesBackWhatNobodyAskedFor) {
  LocalGroup group(2);
  World worlds[] = {group.join(0), group.join(1)};
  const Config config;
  TensorTable tables[2];
  Loop loops[] = {{worlds[0], config, tables[0]}, {worlds[1], config, tables[1]}};
  Entry entry;
  entry.name = "late";
  loops[0].leave("");
  loops[1].leave("");
  std::thread other([&] { loops[1].run(); });
  loops[0].run();
  other.join();
  EXPECT_THROW(tables[0].put(entry, {}, {}), Error);
}

}  // namespace
}  // namespace hora
