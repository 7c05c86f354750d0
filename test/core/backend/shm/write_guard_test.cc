// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_guard.h"

#include "test/core/backend/shm/arenas.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora::shm {
namespace {

TEST(WriteGuard, IsAllowedUntilSomebodyLeaves) {
  const auto arenas = make_arenas(3);
  const Communicator communicator(arenas[0], 0, 3);
  EXPECT_TRUE(WriteGuard(communicator).allowed());
  leave(Communicator(arenas[2], 2, 3), nullptr);
  EXPECT_FALSE(WriteGuard(communicator).allowed());
}

TEST(WriteGuard, NobodyWritesOnceARankHasLeft) {
  for (int round = 0; round < 200; ++round) {
    const auto arenas = make_arenas(2, 1 << 20);
    int buffer = 0;  // of rank 1, not atomic: ThreadSanitizer sees when both use it
    const Communicator communicator(arenas[0], 0, 2);
    std::thread writer([&] {
      while (true) {
        const WriteGuard guard(communicator);
        if (!guard.allowed()) return;
        ++buffer;
      }
    });
    leave(Communicator(arenas[1], 1, 2), nullptr);
    buffer = -1;
    writer.join();
    ASSERT_EQ(buffer, -1);
  }
}

TEST(Leave, DoesNotWaitForeverForAWriterThatIsDead) {
  const auto arenas = make_arenas(2);
  const Communicator communicator(arenas[0], 0, 2);
  const WriteGuard dead(communicator);
  leave(Communicator(arenas[1], 1, 2), nullptr);
  SUCCEED();
}

/// Of ranks of which one has ended.
class EndedPeer final : public PeerMemory {
 public:
  explicit EndedPeer(int ended) : ended_(ended) {}
  void read(int, void*, std::uint64_t, std::size_t) override {}
  void write(int, std::uint64_t, const void*, std::size_t) override {}
  [[nodiscard]] bool has_ended(int rank) const noexcept override { return rank == ended_; }

 private:
  const int ended_;
};

TEST(Leave, WaitsForWritersThatLiveAlone) {
  const auto arenas = make_arenas(3);
  const Communicator communicator(arenas[0], 0, 3);
  const WriteGuard dead(communicator);
  std::atomic<bool> writes{false};
  std::thread other([&] {
    const Communicator own(arenas[1], 1, 3);
    const WriteGuard lives(own);
    writes = true;
    while (arenas[2]->block(2).gone.load() == 0) std::this_thread::yield();
  });
  while (!writes.load()) std::this_thread::yield();
  leave(Communicator(arenas[2], 2, 3), std::make_unique<EndedPeer>(0).get());
  EXPECT_EQ(arenas[1]->block(1).writing.load(), 0U) << "this one was waited for";
  EXPECT_EQ(arenas[0]->block(0).writing.load(), 1U) << "this one would never have ended";
  other.join();
}

}  // namespace
}  // namespace hora::shm
