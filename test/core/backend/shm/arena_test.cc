// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/arena.h"

#include "test/core/backend/shm/arenas.h"
#include "test/support/threads.h"

#include <hora/status.h>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <random>
#include <set>

namespace hora::shm {
namespace {

std::size_t backed_bytes(const Descriptor& file) {
  struct stat found{};
  EXPECT_EQ(::fstat(file.fd(), &found), 0);
  return static_cast<std::size_t>(found.st_blocks) * 512;
}

TEST(Arena, LendsAlignedZeroedMemory) {
  const auto arena = make_arenas(1).front();
  for (const std::size_t bytes : {0, 1, 64, 1000, 5 << 20}) {
    const auto memory = arena->allocate(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0u);
    EXPECT_TRUE(arena->contains(memory.get()));
    EXPECT_TRUE(
        std::all_of(memory.get(), memory.get() + bytes, [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST(Arena, UsesAgainWhatWasGivenBackAndZeroesIt) {
  const auto arena = make_arenas(1).front();
  for (const std::size_t bytes : {100, 3 << 20}) {
    std::set<std::byte*> places;
    for (int round = 0; round < 100; ++round) {
      const auto memory = arena->allocate(bytes);
      ASSERT_EQ(memory.get()[bytes - 1], std::byte{0});
      std::fill(memory.get(), memory.get() + bytes, std::byte{7});
      places.insert(memory.get());
    }
    EXPECT_EQ(places.size(), 1u);
  }
}

TEST(Arena, GivesLargeMemoryBackToTheSystem) {
  Descriptor file = Arena::create_file(1, kTestRegion);
  const Descriptor view(::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
  const auto mapping = std::make_shared<const Mapping>(std::move(file), Arena::file_bytes(1, kTestRegion));
  const auto arena = Arena::make(mapping, 0, 1, kTestRegion);
  const std::size_t before = backed_bytes(view);
  auto memory = arena->allocate(16 << 20);
  EXPECT_GE(backed_bytes(view), before + (16 << 20));
  memory.reset();
  EXPECT_LT(backed_bytes(view), before + (1 << 20));
}

TEST(Arena, MemoryThatIsLentDoesNotOverlap) {
  const auto arena = make_arenas(1).front();
  std::mt19937 random(11);
  std::vector<std::pair<std::shared_ptr<std::byte>, std::size_t>> held;
  for (int step = 0; step < 2000; ++step) {
    if (held.size() > 40 || (random() % 3 == 0 && !held.empty())) {
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(random() % held.size()));
    }
    const std::size_t bytes = 1 + random() % 200'000;
    held.emplace_back(arena->allocate(bytes), bytes);
    std::vector<std::pair<std::byte*, std::byte*>> ranges;
    for (const auto& [memory, length] : held) ranges.emplace_back(memory.get(), memory.get() + length);
    std::sort(ranges.begin(), ranges.end());
    for (std::size_t i = 1; i < ranges.size(); ++i) ASSERT_LE(ranges[i - 1].second, ranges[i].first);
  }
}

TEST(Arena, AllRanksSeeTheSameBytes) {
  const auto mapping_bytes = Arena::file_bytes(2, kTestRegion);
  Descriptor file = Arena::create_file(2, kTestRegion);
  Descriptor second(::fcntl(file.fd(), F_DUPFD_CLOEXEC, 0));
  const auto one =
      Arena::make(std::make_shared<const Mapping>(std::move(file), mapping_bytes), 0, 2, kTestRegion);
  const auto two =
      Arena::make(std::make_shared<const Mapping>(std::move(second), mapping_bytes), 1, 2, kTestRegion);
  ASSERT_NE(one->base(), two->base());
  const auto memory = one->allocate(100);
  memory.get()[99] = std::byte{42};
  EXPECT_EQ(two->base()[memory.get() - one->base() + 99], std::byte{42});
}

TEST(Arena, RegionsMayLieBeyondFourGigabytes) {
  const auto arenas = make_arenas(2, std::size_t{8} << 30);
  const auto memory = arenas[1]->allocate(4096);
  EXPECT_GT(memory.get() - arenas[1]->base(), std::ptrdiff_t{8} << 30);
  memory.get()[4095] = std::byte{1};
  EXPECT_EQ(memory.get()[4095], std::byte{1});
}

TEST(Arena, MemoryOutlivesIt) {
  auto arenas = make_arenas(1);
  auto memory = arenas.front()->allocate(1000);
  arenas.clear();
  memory.get()[999] = std::byte{1};
  EXPECT_EQ(memory.get()[999], std::byte{1});
}

TEST(Arena, SaysWhatToDoWhenItIsFull) {
  const auto arena = make_arenas(1, 1 << 20).front();
  const auto most = arena->allocate(1 << 20);
  try {
    static_cast<void>(arena->allocate(1));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_THAT(error.what(), testing::HasSubstr("HORA_ARENA_SIZE"));
  }
}

TEST(Arena, ThreadsAllocateAndFreeAtTheSameTime) {
  const auto arena = make_arenas(1).front();
  run_ranks(4, [&](int thread) {
    std::mt19937 random(static_cast<unsigned>(thread));
    for (int step = 0; step < 200; ++step) {
      const std::size_t bytes = 1 + random() % 20'000;
      const auto memory = arena->allocate(bytes);
      std::fill(memory.get(), memory.get() + bytes, std::byte(thread));
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory.get()[i], std::byte(thread));
    }
  });
}

TEST(Arena, AForkedChildReadsItButAllocatesAndFreesNothing) {
  const auto arena = make_arenas(1).front();
  auto memory = arena->allocate(2 << 20);
  memory.get()[5] = std::byte{9};
  const pid_t child = ::fork();
  if (child == 0) {
    bool right = memory.get()[5] == std::byte{9};
    try {
      static_cast<void>(arena->allocate(1));
      right = false;
    } catch (const Error&) {
      memory.reset();
    }
    ::_exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(memory.get()[5], std::byte{9});
}

TEST(Mapping, RefusesAFileOfAnotherSize) {
  EXPECT_THROW(Mapping(Arena::create_file(1, 1 << 20), Arena::file_bytes(1, 2 << 20)), Error);
}

TEST(Arena, RefusesSizesThatNoMemoryHas) {
  const auto arena = make_arenas(1).front();
  const auto some = arena->allocate(64);
  EXPECT_THROW(arena->allocate(SIZE_MAX), Error);
  EXPECT_THROW(arena->allocate(SIZE_MAX - 62), Error);
  EXPECT_NE(arena->allocate(64), nullptr);
}

// The signals arrive as a profiler sends them. Kernels before 6.18 undo all of a call that takes memory when
// one interrupts it.
TEST(Arena, AllocatesWhileSignalsArrive) {
  const auto arena = make_arenas(1, std::size_t{1} << 30).front();
  struct sigaction ignoring{};
  ignoring.sa_handler = [](int) {};
  ignoring.sa_flags = SA_RESTART;
  struct sigaction former{};
  ::sigaction(SIGALRM, &ignoring, &former);
  const itimerval often{{0, 4000}, {0, 4000}};  // microseconds
  const itimerval never{};
  ::setitimer(ITIMER_REAL, &often, nullptr);
  const auto memory = arena->allocate(std::size_t{256} << 20);
  ::setitimer(ITIMER_REAL, &never, nullptr);
  ::sigaction(SIGALRM, &former, nullptr);
  EXPECT_NE(memory, nullptr);
}

}  // namespace
}  // namespace hora::shm
