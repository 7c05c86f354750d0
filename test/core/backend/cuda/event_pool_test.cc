// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/event_pool.h"

#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/fake_gpu/waiting.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace hora::cuda {
namespace {

using testing::HasSubstr;

class EventPoolTest : public testing::Test {
 protected:
  FakeDriver fake;
  std::shared_ptr<const PrimaryContext> context = open();
  std::shared_ptr<EventPool> pool = std::make_shared<EventPool>(context);
  CUstream first = fake.make_stream(0);
  CUstream second = fake.make_stream(0);

 private:
  std::shared_ptr<const PrimaryContext> open() {
    (void)count_gpus(fake.table());
    return std::make_shared<const PrimaryContext>(fake.table(), 0);
  }
};

TEST_F(EventPoolTest, KnowsWhenAPointIsReached) {
  const CurrentContext current(*context);
  HeldStream gate(first);
  const auto event = pool->mark(first);
  EXPECT_FALSE(event->reached());
  EXPECT_TRUE((wait_for(pool->mark(second).get()), true)) << "another stream does not wait";
  gate.open();
  wait_for(event.get());
}

TEST_F(EventPoolTest, HoldsAnotherStreamUp) {
  const CurrentContext current(*context);
  HeldStream gate(first);
  const auto before = pool->mark(first);
  before->hold_up(second);
  const auto after = pool->mark(second);
  EXPECT_FALSE(after->reached());
  gate.open();
  wait_for(after.get());
  EXPECT_TRUE(before->reached());
}

TEST_F(EventPoolTest, TakesTheLegacyDefaultStreamForAStreamToo) {
  const CurrentContext current(*context);
  HeldStream gate(nullptr);
  const auto before = pool->mark(nullptr);
  EXPECT_FALSE(before->reached());
  before->hold_up(first);
  pool->mark(first)->hold_up(nullptr);
  gate.open();
  wait_for(pool->mark(nullptr).get());
}

TEST_F(EventPoolTest, UsesEventsAgain) {
  for (int i = 0; i < 100; ++i) wait_for(pool->mark(first).get());
  EXPECT_EQ(fake.usage(0).events, 1);
  {
    const auto a = pool->mark(first);
    const auto b = pool->mark(first);
    EXPECT_EQ(fake.usage(0).events, 2);
  }
  pool = nullptr;
  EXPECT_EQ(fake.usage(0).events, 0);
}

TEST_F(EventPoolTest, KeepsAWaitWhenTheEventIsUsedAgain) {
  const CurrentContext current(*context);
  HeldStream gate(first);
  pool->mark(first)->hold_up(second);  // and the event goes back
  const auto behind = pool->mark(second);
  EXPECT_FALSE(behind->reached());
  gate.open();
  wait_for(behind.get());
}

TEST_F(EventPoolTest, LivesForAsLongAsItsEvents) {
  auto event = pool->mark(first);
  pool = nullptr;
  context = nullptr;
  wait_for(event.get());
  event = nullptr;
  EXPECT_EQ(fake.usage(0), FakeUsage{});
}

TEST_F(EventPoolTest, ServesManyThreads) {
  std::vector<std::thread> threads;
  for (const CUstream stream : {first, second, first, second}) {
    threads.emplace_back([this, stream] {
      for (int i = 0; i < 50; ++i) {
        const auto event = pool->mark(stream);
        event->hold_up(first);
        wait_for(event.get());
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_LE(fake.usage(0).events, 4);
}

TEST_F(EventPoolTest, LeavesAStreamAloneThatIsBeingCaptured) {
  const auto event = pool->mark(second);
  fake.capture(first, true);
  const Status status = thrown([&] { event->hold_up(first); });
  EXPECT_EQ(status.code, Code::invalid_argument);
  EXPECT_EQ(status.message,
            "the stream is being captured into a CUDA graph: the operation is not part of the graph, so wait "
            "for it "
            "before the capture, or after it");
  wait_for(event.get());
  EXPECT_FALSE(fake.spoilt_capture());
}

TEST_F(EventPoolTest, SaysThatTheGpuHasFailed) {
  const auto event = pool->mark(first);
  fake.fail(0, CUDA_ERROR_ECC_UNCORRECTABLE);
  for (const auto& status : {thrown([&] { (void)event->reached(); }), thrown([&] { event->hold_up(second); }),
                             thrown([&] { (void)pool->mark(first); })}) {
    EXPECT_EQ(status.code, Code::internal);
    EXPECT_THAT(status.message, HasSubstr("CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error"));
  }
}

}  // namespace
}  // namespace hora::cuda
