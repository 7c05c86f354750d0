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
  leave(Communicator(arenas[2], 2, 3));
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
    leave(Communicator(arenas[1], 1, 2));
    buffer = -1;
    writer.join();
    ASSERT_EQ(buffer, -1);
  }
}

TEST(Leave, DoesNotWaitForeverForAWriterThatIsDead) {
  const auto arenas = make_arenas(2);
  const Communicator communicator(arenas[0], 0, 2);
  const WriteGuard dead(communicator);
  leave(Communicator(arenas[1], 1, 2));
  SUCCEED();
}

}  // namespace
}  // namespace hora::shm
