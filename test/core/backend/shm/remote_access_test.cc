// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/remote_access.h"

#include "test/core/backend/shm/arenas.h"

#include <hora/status.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace hora::shm {
namespace {

TEST(RemoteAccess, TellsArenaFromPrivateMemory) {
  const auto arenas = make_arenas(2);
  RemoteAccess access(Communicator(arenas[0], 0, 2), nullptr);
  const auto shared = arenas[0]->allocate(100);
  int mine = 0;
  EXPECT_EQ(access.locate(shared.get()).in_arena, 1u);
  EXPECT_EQ(access.locate(&mine).in_arena, 0u);
  EXPECT_EQ(access.local(1, access.locate(shared.get()), 10, 20), shared.get() + 10);
  EXPECT_EQ(access.local(0, access.locate(&mine), 0, 4), reinterpret_cast<std::byte*>(&mine));
  EXPECT_EQ(access.local(1, access.locate(&mine), 0, 4), nullptr);
}

TEST(RemoteAccess, RefusesPlacesOutsideOfTheArena) {
  const auto arenas = make_arenas(2);
  RemoteAccess access(Communicator(arenas[0], 0, 2), nullptr);
  const std::uint64_t size = arenas[0]->size();
  constexpr auto kHuge = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THROW(static_cast<void>(access.local(1, {size, 1}, 0, 1)), Error);
  EXPECT_THROW(static_cast<void>(access.local(1, {size - 8, 1}, 4, 8)), Error);
  EXPECT_THROW(static_cast<void>(access.local(1, {size - 8, 1}, 9, 0)), Error);
  EXPECT_THROW(static_cast<void>(access.local(1, {kHuge, 1}, 8, 8)), Error);
  EXPECT_THROW(static_cast<void>(access.local(1, {8, 1}, 0, kHuge)), Error);
  EXPECT_NO_THROW(static_cast<void>(access.local(1, {size - 8, 1}, 0, 8)));
}

TEST(RemoteAccess, SeesWhatIsAllocatedAgainAfterItWasGivenBack) {
  const std::size_t bytes = 4 << 20;
  const auto arenas = make_arenas(2);
  RemoteAccess access(Communicator(arenas[0], 0, 2), nullptr);
  for (int round = 1; round < 4; ++round) {
    const auto memory = arenas[1]->allocate(bytes);
    memory.get()[bytes - 1] = std::byte(round);
    EXPECT_EQ(access.local(1, access.locate(memory.get()), 0, bytes)[bytes - 1], std::byte(round));
  }
}

TEST(RemoteAccess, ReadsAndWritesWhereverItIs) {
  const auto arenas = make_arenas(2);
  RemoteAccess access(Communicator(arenas[0], 0, 2), make_thread_memory());
  const auto shared = arenas[1]->allocate(8);
  std::uint64_t theirs = 0;
  for (const void* data : {static_cast<const void*>(shared.get()), static_cast<const void*>(&theirs)}) {
    std::uint64_t word = 77;
    access.write(1, access.locate(data), 0, &word, sizeof word);
    word = 0;
    access.read(1, access.locate(data), 0, &word, sizeof word);
    EXPECT_EQ(word, 77u);
  }
}

}  // namespace
}  // namespace hora::shm
