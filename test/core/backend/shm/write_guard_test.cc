// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/write_guard.h"

#include "test/core/backend/shm/arenas.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora::shm {
namespace {

TEST(WriteGuard, IsAllowedUntilSomebodyLeaves) {
  const auto arenas = make_arenas(3);
  const Circle circle(arenas[0], 0, 3);
  EXPECT_TRUE(WriteGuard(circle).allowed());
  leave(Circle(arenas[2], 2, 3));
  EXPECT_FALSE(WriteGuard(circle).allowed());
}

TEST(WriteGuard, NobodyWritesOnceARankHasLeft) {
  for (int round = 0; round < 200; ++round) {
    const auto arenas = make_arenas(2, 1 << 20);
    int buffer = 0;  // of rank 1, not atomic: ThreadSanitizer sees when both use it
    const Circle circle(arenas[0], 0, 2);
    std::thread writer([&] {
      while (true) {
        const WriteGuard guard(circle);
        if (!guard.allowed()) return;
        ++buffer;
      }
    });
    leave(Circle(arenas[1], 1, 2));
    buffer = -1;
    writer.join();
    ASSERT_EQ(buffer, -1);
  }
}

TEST(Leave, DoesNotWaitForeverForAWriterThatIsDead) {
  const auto arenas = make_arenas(2);
  const Circle circle(arenas[0], 0, 2);
  const WriteGuard dead(circle);
  leave(Circle(arenas[1], 1, 2));
  SUCCEED();
}

}  // namespace
}  // namespace hora::shm
