// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/groups.h"

#include "core/backend/local/local_group.h"
#include "test/support/local_job.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

/// A rank of two with its groups.
struct GroupsOfARank {
  GroupsOfARank(local::LocalGroup& group, int rank, const Config& chosen)
      : config(chosen), world(group.join(rank)) {}
  Config config;
  World world;
  TensorTable table;
  Recorder recorder{0};
  Tracer tracer;
  AbortBroadcaster aborter;
  OwnGpu gpu{0};
  Groups groups{world, config, {0, 1}, table, recorder, tracer, aborter, gpu, {[](const Status&) {}}};
};

void run(const std::function<void(GroupsOfARank&, int)>& main, const Config& config = {}) {
  local::LocalGroup group(2);
  run_ranks(2, [&](int number) {
    GroupsOfARank rank(group, number, config);
    main(rank, number);
  });
}

TEST(Groups, BeginWithTheWorldAndHaveThoseThatThisRankIsIn) {
  run([](GroupsOfARank& rank, int number) {
    EXPECT_EQ(rank.groups.find(kWorld), &rank.groups.world());
    EXPECT_EQ(rank.groups.find(1), nullptr);
    rank.groups.add(1, {1});
    ASSERT_EQ(rank.groups.find(1) != nullptr, number == 1);
    if (number == 1) {
      const Members& members = rank.groups.find(1)->members();
      EXPECT_EQ(members.group, 1);
      EXPECT_EQ(members.ranks, std::vector<int>{1});
      EXPECT_EQ(members.place, 0);
    }
    rank.groups.remove(1, true);
    EXPECT_EQ(rank.groups.find(1), nullptr);
  });
}

TEST(Groups, EndWhatIsBlockedInThemWhenARankIsLost) {
  run([](GroupsOfARank& rank, int number) {
    rank.groups.add(1, {0, 1});
    if (number == 1) return;
    rank.aborter.ring({Code::aborted, "rank 1 is gone"});
    EXPECT_THROW(rank.groups.find(1)->lane().collective->barrier(), Error);
  });
}

TEST(Groups, ChangeOnlyTheThresholdsThatTheUserHasLeftOpen) {
  run([](GroupsOfARank& rank, int) {
    const FusionThresholds first = rank.groups.thresholds();
    rank.groups.fuse_up_to(12345);
    EXPECT_EQ(rank.groups.thresholds().host, 12345u);
    EXPECT_EQ(rank.groups.thresholds().cuda, first.cuda) << "its batches are not measured";
  });
  Config set;
  set.fusion_threshold = 1000;
  set.autotune = true;
  run(
      [](GroupsOfARank& rank, int) {
        rank.groups.fuse_up_to(12345);
        EXPECT_EQ(rank.groups.thresholds().host, 1000u);
        EXPECT_EQ(rank.groups.thresholds().cuda, 12345u);
      },
      set);
}

}  // namespace
}  // namespace hora
