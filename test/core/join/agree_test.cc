// SPDX-License-Identifier: Apache-2.0
#include "core/join/agree.h"

#include "core/backend/local/local_group.h"
#include "core/base/bytes.h"
#include "core/join/exchange.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Agree, Rank0sKnobsCountAndOthersAreWarnedOf) {
  local::LocalGroup group(3);
  testing::internal::CaptureStderr();
  run_ranks(3, [&](int rank) {
    World world = group.join(rank);
    Config config;
    config.fusion_threshold = rank == 2 ? 4 : 1024;
    config.levels = {2, 4};
    if (rank == 1) config.levels->clear();
    agree(config, *world.control, world.members, Clock::now() + std::chrono::minutes(1));
    EXPECT_EQ(config.fusion_threshold, 1024u);
    EXPECT_EQ(config.levels, (std::vector<int>{2, 4}));
  });
  const std::string heard = testing::internal::GetCapturedStderr();
  EXPECT_NE(
      heard.find("ranks have other settings, and those of rank 0 count: rank 2: 'HORA_FUSION_THRESHOLD' "
                 "is 4, and 1024 on rank 0\n"),
      std::string::npos)
      << heard;
  EXPECT_NE(heard.find("rank 1: 'HORA_LEVELS' is 0, and 2,4 on rank 0"), std::string::npos) << heard;
  EXPECT_EQ(heard.find("arguments"), std::string::npos) << heard;
}

TEST(Agree, AnotherVersionIsAnErrorOnEveryRank) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int rank) {
    const World world = group.join(rank);
    if (rank == 1) {
      Writer words;
      words.string("9.9.9").string("what that version says");
      exchange(*world.control, words.take(), Clock::now() + std::chrono::minutes(1));
      return;
    }
    Config config;
    const auto meet = [&] {
      agree(config, *world.control, world.members, Clock::now() + std::chrono::minutes(1));
    };
    const std::string text = thrown(meet).message;
    EXPECT_EQ(text.find("rank 1 (pid "), 0u) << text;
    EXPECT_NE(text.find("has Hora 9.9.9, and rank 0"), std::string::npos) << text;
  });
}

}  // namespace
}  // namespace hora
