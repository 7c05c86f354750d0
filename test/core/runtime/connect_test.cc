// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/connect.h"

#include "test/support/join_job.h"
#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <hora/hora.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Connect, OneRankNeedsNobody) {
  Config config;
  const World world = join_job(config);
  EXPECT_EQ(world.members.size(), 1u);
  EXPECT_EQ(world.job.size(), 8u);
}

TEST(Connect, Rank0sKnobsCount) {
  for (const char* operations : {"auto", "tcp"}) {
    auto configs = loopback_configs(3);
    configs[0].fusion_threshold = 12345;
    configs[0].cpu_operations = operations;
    std::vector<World> worlds(3);
    run_ranks(3, [&](int rank) {
      worlds[static_cast<std::size_t>(rank)] = join_job(configs[static_cast<std::size_t>(rank)]);
    });
    for (const auto& config : configs) EXPECT_EQ(config.fusion_threshold, 12345u);
    for (const auto& world : worlds) EXPECT_EQ(world.job, worlds.front().job);
    run_ranks(3, [&](int rank) { worlds[static_cast<std::size_t>(rank)] = {}; });
  }
}

TEST(Connect, TheSameProcessesMeetAgainAndAgain) {
  const auto configs = loopback_configs(3);
  run_ranks(3, [&](int rank) {
    for (int round = 0; round < 20; ++round) {
      Runtime hora(configs[static_cast<std::size_t>(rank)]);
      std::vector<float> x(100, 1.0F);
      Entry entry;
      entry.name = "x";
      entry.shape = {100};
      entry.input = entry.output = x.data();
      entry.op = ReduceOp::sum;
      hora.submit(entry).wait();
      ASSERT_EQ(x, std::vector<float>(100, 3.0F));
    }
  });
}

TEST(Connect, RanksOfAnotherJobAreRefused) {
  auto configs = loopback_configs(2);
  configs[1].secret[0] ^= 1;
  for (auto& config : configs) config.start_timeout = std::chrono::seconds(2);
  run_ranks(2, [&](int rank) {
    try {
      static_cast<void>(join_job(configs[static_cast<std::size_t>(rank)]));
      ADD_FAILURE();
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(rank == 0 ? "rank 1 did not come within 2 s"
                                    : "none of this job, whose ranks have one secret"),
                std::string::npos)
          << text;
    }
  });
}

TEST(Connect, RanksThatDisagreeAboutTheSizeAllHearIt) {
  auto configs = loopback_configs(2);
  configs[1].size = 3;
  run_ranks(2, [&](int rank) {
    try {
      static_cast<void>(join_job(configs[static_cast<std::size_t>(rank)]));
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "rank 0 was started as one of 2, rank 1 as one of 3");
    }
  });
}

TEST(Connect, WithoutACoordinatorItSaysWhatToSet) {
  Config config;
  config.size = 2;
  try {
    static_cast<void>(join_job(config));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    EXPECT_NE(std::string(error.what()).find("HORA_COORDINATOR=host:port"), std::string::npos);
  }
}

}  // namespace
}  // namespace hora
