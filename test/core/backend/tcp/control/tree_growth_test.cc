// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/tree_growth.h"

#include "test/support/sessions.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora::tcp {
namespace {

TEST(TreeGrowth, KeepsWhatIsAnnouncedUntilAllLinksAreThere) {
  TreeGrowth growth;
  const Bytes bytes{std::byte{7}};
  growth.keep({RankSet(1, 2), bytes});
  EXPECT_FALSE(growth.is_finished());
  EXPECT_EQ(growth.finish(), (std::vector<TreeGrowth::Announcement>{{RankSet(1, 2), bytes}}));
  EXPECT_TRUE(growth.is_finished());
}

TEST(TreeGrowth, WaitsUntilTheOtherThreadHasTakenAllLinks) {
  TreeGrowth growth;
  std::mutex mutex;
  growth.add({{}, {{}, make_sessions().first}});
  std::thread taker([&] {
    const std::lock_guard lock(mutex);
    EXPECT_EQ(growth.take().size(), 1U);
  });
  std::unique_lock lock(mutex);
  growth.await_taken(lock);
  EXPECT_TRUE(growth.take().empty());
  lock.unlock();
  taker.join();
}

}  // namespace
}  // namespace hora::tcp
