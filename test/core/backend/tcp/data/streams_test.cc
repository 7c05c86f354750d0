// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/streams.h"

#include <gtest/gtest.h>

namespace hora::tcp {
namespace {

std::vector<Member> ranks_on(std::initializer_list<const char*> hosts) {
  std::vector<Member> members;
  for (const char* host : hosts) members.push_back({static_cast<int>(members.size()), 1, host, {}, {}});
  return members;
}

TEST(Streams, AreSeveralBetweenHostsHoweverManyRanksShareThem) {
  EXPECT_EQ(streams_between({}, ranks_on({"a", "b"})), 4u);
  EXPECT_EQ(streams_between({}, ranks_on({"a", "a", "b", "b"})), 2u);
  EXPECT_EQ(streams_between({}, ranks_on({"a", "a", "b"})), 2u);
  EXPECT_EQ(streams_between({}, ranks_on({"a", "a", "a", "a", "a", "b", "b", "b", "b", "b"})), 1u);
}

TEST(Streams, AreOneWithinAHost) { EXPECT_EQ(streams_between({}, ranks_on({"a", "a", "a"})), 1u); }

TEST(Streams, AreAsManyAsConfigured) {
  Config config;
  config.tcp_streams = 3;
  EXPECT_EQ(streams_between(config, ranks_on({"a", "b"})), 3u);
}

}  // namespace
}  // namespace hora::tcp
