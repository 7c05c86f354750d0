// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/handle.h"

#include "test/support/one_core.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

TEST(Handle, WaitsForItsResult) {
  const auto state = std::make_shared<Handle::State>();
  const Handle handle(state);
  EXPECT_FALSE(handle.poll());
  EXPECT_FALSE(handle.has_ended());
  EXPECT_FALSE(handle.wait_for(std::chrono::milliseconds(0)));
  std::thread engine([&] { state->set({{}, {2, 3}, true}); });
  EXPECT_EQ(handle.wait().shape, (std::vector<std::int64_t>{2, 3}));
  engine.join();
  EXPECT_TRUE(handle.poll());
  EXPECT_TRUE(handle.has_ended());
  EXPECT_TRUE(handle.wait_for(std::chrono::milliseconds(0)));
}

TEST(Handle, WhoPollsAgainAndAgainLeavesTheCoreToWhoHasWorkToDo) {
  constexpr int kFewerThanInATimeSlice = 100'000;
  const OneCore one;
  const auto state = std::make_shared<Handle::State>();
  const Handle handle(state);
  std::thread engine([&] { state->set({}); });
  int polls = 0;
  while (!handle.poll()) ++polls;
  EXPECT_LT(polls, kFewerThanInATimeSlice);
  engine.join();
}

TEST(Handle, ThrowsTheStatusEveryTime) {
  const auto state = std::make_shared<Handle::State>();
  state->set({{Code::mismatch, "'w': differs"}, {}, true});
  for (int i = 0; i < 2; ++i) EXPECT_THROW(Handle(state).wait(), Error);
}

TEST(Handle, WaitsAsLongAsThereAreNumbersFor) {
  const auto state = std::make_shared<Handle::State>();
  const Handle handle(state);
  EXPECT_FALSE(handle.wait_for(std::chrono::milliseconds::min()));
  std::thread engine([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    state->set({});
  });
  EXPECT_TRUE(handle.wait_for(std::chrono::milliseconds::max()));
  engine.join();
}

TEST(Handle, IsWaitedForUntilTheWorkHasBeenGivenToTheGpuOrHasEnded) {
  const auto state = std::make_shared<Handle::State>();
  const Handle handle(state);
  EXPECT_FALSE(handle.wait_launched_for(std::chrono::milliseconds(0)));
  std::thread engine([&] { state->launch({{}, {2, 3}, true}, nullptr); });
  EXPECT_TRUE(handle.wait_launched_for(std::chrono::milliseconds::max()));
  EXPECT_EQ(handle.wait_on(nullptr).shape, (std::vector<std::int64_t>{2, 3}));
  engine.join();
  EXPECT_FALSE(handle.poll());

  const auto failed = std::make_shared<Handle::State>();
  failed->set({{Code::mismatch, "'w': differs"}, {}, true});
  EXPECT_TRUE(Handle(failed).wait_launched_for(std::chrono::milliseconds(0)));
  EXPECT_THROW(Handle(failed).wait_on(nullptr), Error);
}

}  // namespace
}  // namespace hora
