// SPDX-License-Identifier: Apache-2.0
#include "core/watch/watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>

namespace hora {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, NamesWhatStandsStill) {
  std::promise<Status> told;
  Watchdog dog(
      milliseconds(20), [] { return std::uint64_t{7}; }, [&](const Status& why) { told.set_value(why); });
  const Watch watch(dog, Operation::allreduce, "grad", 3);
  const Status why = told.get_future().get();
  EXPECT_EQ(why.code, Code::timeout);
  EXPECT_EQ(why.message,
            "allreduce of 'grad' and 3 more tensors has made no progress for 0.02 s, though all ranks have "
            "submitted "
            "it: a rank's engine stands still, or the network between is down; a longer wait is "
            "HORA_OPERATION_TIMEOUT");
}

TEST(Watchdog, SaysNothingWhileSomethingMoves) {
  std::atomic<std::uint64_t> looks = 0;
  std::atomic<bool> told = false;
  Watchdog dog(milliseconds(8), [&] { return ++looks; }, [&](const Status&) { told = true; });
  const Watch watch(dog, Operation::allreduce, "grad", 0);
  while (looks < 100) std::this_thread::yield();
  EXPECT_FALSE(told);
}

TEST(Watchdog, SaysNothingOfAnEngineThatIsIdle) {
  std::atomic<std::uint64_t> looks = 0;
  std::atomic<bool> told = false;
  Watchdog dog(
      milliseconds(8), [&] { return ++looks, std::uint64_t{0}; }, [&](const Status&) { told = true; });
  {
    const Watch watch(dog, Operation::allreduce, "grad", 0);
  }
  looks = 0;
  while (looks < 100) std::this_thread::yield();
  EXPECT_FALSE(told);
}

TEST(Watchdog, TellsOnceOfEachOperation) {
  std::atomic<std::uint64_t> looks = 0;
  std::atomic<int> told = 0;
  Watchdog dog(milliseconds(8), [&] { return ++looks, std::uint64_t{0}; }, [&](const Status&) { ++told; });
  for (int operation = 1; operation <= 2; ++operation) {
    const Watch watch(dog, Operation::broadcast, "weights", 0);
    while (told < operation) std::this_thread::yield();
    looks = 0;
    while (looks < 50) std::this_thread::yield();
    EXPECT_EQ(told, operation);
  }
}

TEST(Watchdog, NeverLooksWithoutALimit) {
  std::atomic<bool> looked = false;
  {
    Watchdog dog(milliseconds(0), [&] { return looked = true, std::uint64_t{0}; }, [](const Status&) {});
    const Watch watch(dog, Operation::allreduce, "grad", 0);
  }
  EXPECT_FALSE(looked);
}

}  // namespace
}  // namespace hora
