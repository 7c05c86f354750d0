// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/local_group.h"

#include <gtest/gtest.h>

namespace hora::local {
namespace {

TEST(LocalGroup, ConnectsRanksThatMayOutliveIt) {
  World worlds[2];
  {
    LocalGroup group(2);
    worlds[0] = group.join(0);
    worlds[1] = group.join(1);
  }
  EXPECT_EQ(worlds[0].members.size(), 2u);
  EXPECT_EQ(worlds[0].job, worlds[1].job);
  worlds[0].control->send(1, Bytes{std::byte{1}});
  EXPECT_EQ(expect_message(*worlds[1].control->receive(TimePoint::max())).from, 0);
}

TEST(LocalGroup, LosesARank) {
  LocalGroup group(2);
  World world = group.join(0);
  group.lose(1, "it fell over");
  EXPECT_EQ(std::get<PeerLost>(*world.control->receive(TimePoint::max())).why,
            (Status{Code::aborted, "rank 1 is gone: it fell over"}));
}

}  // namespace
}  // namespace hora::local
