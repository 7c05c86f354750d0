// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/handle.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

TEST(Handle, WaitsForItsResult) {
  const auto state = std::make_shared<Handle::State>();
  const Handle handle(state);
  EXPECT_FALSE(handle.poll());
  EXPECT_FALSE(handle.wait_for(std::chrono::milliseconds(0)));
  std::thread engine([&] { state->set({{}, {2, 3}, true}); });
  EXPECT_EQ(handle.wait().shape, (std::vector<std::int64_t>{2, 3}));
  engine.join();
  EXPECT_TRUE(handle.poll());
  EXPECT_TRUE(handle.wait_for(std::chrono::milliseconds(0)));
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

}  // namespace
}  // namespace hora
