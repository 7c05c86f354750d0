// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/rendezvous.h"

#include "test/support/tcp_ranks.h"
#include "test/support/threads.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

std::vector<std::string> failures(const std::vector<Config>& configs) {
  std::vector<std::string> texts(configs.size());
  run_ranks(static_cast<int>(configs.size()), [&](int thread) {
    const auto& config = configs[static_cast<std::size_t>(thread)];
    try {
      static_cast<void>(meet(config, Clock::now() + config.start_timeout));
    } catch (const Error& error) {
      texts[static_cast<std::size_t>(thread)] = error.what();
    }
  });
  return texts;
}

TEST(Meet, NamesTheRanksThatDoNotComeOnAllThatDid) {
  auto configs = loopback_configs(4);
  configs.resize(2);
  for (auto& config : configs) config.start_timeout = std::chrono::milliseconds(500);
  const auto texts = failures(configs);
  EXPECT_NE(texts[0].find("ranks 2 and 3 did not come within 0.5 s"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[1], texts[0]);
}

TEST(Meet, RefusesTwoProcessesOfOneRank) {
  auto configs = loopback_configs(3);
  configs[2].rank = 1;
  const auto texts = failures(configs);
  EXPECT_NE(texts[0].find("two processes were started as rank 1"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[1], texts[0]);
  EXPECT_EQ(texts[2], texts[0]);
}

TEST(Meet, RefusesADescriptorThatDoesNotListen) {
  auto configs = loopback_configs(2);
  configs[0].coordinator_fd = 0;
  configs.resize(1);
  EXPECT_NE(failures(configs)[0].find("HORA_COORDINATOR_FD=0 is not a listening socket"), std::string::npos);
}

}  // namespace
}  // namespace hora
