// SPDX-License-Identifier: Apache-2.0
#include <hora/completion_queue.h>

#include "core/runtime/handle.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

namespace hora {
namespace {

using Tokens = std::vector<std::uint64_t>;
using State = std::shared_ptr<Handle::State>;

bool readable(const CompletionQueue& queue, int milliseconds = 0) {
  pollfd event{queue.fd(), POLLIN, 0};
  return ::poll(&event, 1, milliseconds) == 1;
}

TEST(CompletionQueue, TellsOfOperationsThatEndAndOfThoseThatHadEnded) {
  CompletionQueue queue;
  const State later = std::make_shared<Handle::State>();
  const State before = std::make_shared<Handle::State>();
  before->set({{Code::mismatch, "differs"}});
  queue.watch(Handle(later), 7);
  EXPECT_FALSE(readable(queue));
  queue.watch(Handle(before), 8);
  EXPECT_TRUE(readable(queue));
  EXPECT_EQ(queue.take(), Tokens{8});
  EXPECT_FALSE(readable(queue));
  later->set({});
  EXPECT_TRUE(readable(queue));
  EXPECT_EQ(queue.take(), Tokens{7});
  EXPECT_EQ(queue.take(), Tokens{});
}

TEST(CompletionQueue, StaysReadableUntilAllTokensAreTaken) {
  CompletionQueue queue;
  for (std::uint64_t token : {1, 2, 3}) {
    const State state = std::make_shared<Handle::State>();
    queue.watch(Handle(state), token);
    state->set({});
  }
  EXPECT_EQ(queue.take(2), (Tokens{1, 2}));
  EXPECT_TRUE(readable(queue));
  EXPECT_EQ(queue.take(2), Tokens{3});
  EXPECT_FALSE(readable(queue));
}

TEST(CompletionQueue, MayBeGoneBeforeTheOperationHasEnded) {
  const State state = std::make_shared<Handle::State>();
  {
    CompletionQueue queue;
    queue.watch(Handle(state), 1);
  }
  state->set({});
}

TEST(CompletionQueue, LosesNoTokenHoweverThreadsMeet) {
  constexpr std::uint64_t kOperations = 2000;
  CompletionQueue queue;
  std::vector<State> states;
  for (std::uint64_t i = 0; i < kOperations; ++i) states.push_back(std::make_shared<Handle::State>());
  std::thread engine([&] {
    for (const auto& state : states) state->set({});
  });
  std::thread watcher([&] {
    for (std::uint64_t i = 0; i < kOperations; ++i) queue.watch(Handle(states[i]), i);
  });
  Tokens all;
  while (all.size() < kOperations) {
    ASSERT_TRUE(readable(queue, 20'000));
    for (const auto token : queue.take(16)) all.push_back(token);
  }
  engine.join();
  watcher.join();
  std::sort(all.begin(), all.end());
  Tokens expected(kOperations);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

}  // namespace
}  // namespace hora
