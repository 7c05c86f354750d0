// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/unregistered_copies.h"

#include "test/support/fake_gpu/nccl_ranks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hora::nccl {
namespace {

struct OnOneRank {
  NcclRanks ranks{1};
  LaneCommunicators lane{ranks.at(0).context, ranks.at(0).cuda_stream()};
  std::shared_ptr<Communicator> world = lane.connect(ranks.make_id(), 0, 1);
  UnregisteredCopies copies{lane, *world};
  std::shared_ptr<std::byte> memory = lane.context().memory->allocate(64, true);
};

bool all_are(const std::byte* data, std::byte value) {
  return std::all_of(data, data + 64, [=](std::byte each) { return each == value; });
}

TEST(UnregisteredCopies, AreNotTakenAroundMemoryThatNcclDoesNotKnow) {
  OnOneRank own;
  EXPECT_EQ(own.copies.read(own.memory.get(), 64), own.memory.get());
  EXPECT_EQ(own.copies.written(own.memory.get(), 64), own.memory.get());
  EXPECT_EQ(own.copies.both(own.memory.get(), 64), own.memory.get());
  EXPECT_EQ(own.ranks.driver.calls("cuMemAllocFromPoolAsync"), 0);
}

TEST(UnregisteredCopies, BringWhatIsReadAndTakeHomeWhatIsWritten) {
  OnOneRank own;
  own.world->meet(own.memory.get());
  std::fill_n(own.memory.get(), 64, std::byte{1});
  const auto* read = static_cast<const std::byte*>(own.copies.read(own.memory.get(), 64));
  auto* both = static_cast<std::byte*>(own.copies.both(own.memory.get(), 64));
  own.ranks.at(0).finish();
  EXPECT_NE(read, own.memory.get());
  EXPECT_TRUE(all_are(read, std::byte{1}));
  EXPECT_TRUE(all_are(both, std::byte{1}));
  std::fill_n(both, 64, std::byte{2});
  own.copies.end();
  own.ranks.at(0).finish();
  EXPECT_TRUE(all_are(own.memory.get(), std::byte{2}));
}

TEST(UnregisteredCopies, GiveMemoryBackBehindWhatIsOnTheStream) {
  OnOneRank own;
  own.world->meet(own.memory.get());
  const std::size_t before = own.ranks.driver.usage(0).blocks;
  {
    UnregisteredCopies copies(own.lane, *own.world);
    own.ranks.driver.hold(0);
    auto* place = static_cast<std::byte*>(copies.written(own.memory.get(), 64));
    own.lane.stream().set_bytes(place, std::byte{0}, 64);
    copies.end();
  }
  EXPECT_EQ(own.ranks.driver.usage(0).blocks, before + 1);
  own.ranks.driver.release(0);
  own.ranks.driver.finish(0);
  EXPECT_EQ(own.ranks.driver.usage(0).blocks, before);
  EXPECT_TRUE(all_are(own.memory.get(), std::byte{0}));
}

}  // namespace
}  // namespace hora::nccl
