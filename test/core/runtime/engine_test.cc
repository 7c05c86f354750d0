// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/engine.h"

#include "test/support/local_job.h"

#include <gtest/gtest.h>

#include <future>
#include <stdexcept>
#include <thread>

namespace hora {
namespace {

/// A sum of ones, and whether it is right.
bool sums(Runtime& runtime, const std::string& name) {
  std::vector<float> data(8, 1.0F);
  Entry entry = in_place(Operation::allreduce, name, DType::float32, data);
  runtime.submit(std::move(entry)).wait();
  return data == std::vector<float>(8, static_cast<float>(runtime.size()));
}

TEST(Engine, AThreadThatWaitsRunsTheLoopItself) {
  std::atomic<int> here{0};
  run_local_job(2, [&](Runtime& runtime) {
    for (int step = 0; step < 500; ++step) {
      std::vector<float> data(8, 1.0F);
      Entry entry = in_place(Operation::allreduce, "x", DType::float32, data);
      entry.done = [&, user = std::this_thread::get_id()](const Result&) {
        if (std::this_thread::get_id() == user) ++here;
      };
      runtime.run(std::move(entry));
      ASSERT_EQ(data.front(), 2.0F);
    }
  });
  EXPECT_GT(here, 0);
}

TEST(Engine, TheOwnThreadGoesOnWithWhatNobodyWaitsFor) {
  run_local_job(2, [](Runtime& runtime) {
    for (int step = 0; step < 300; ++step) {
      std::vector<float> slow(8, 1.0F);
      const Handle handle = runtime.submit(in_place(Operation::allreduce, "slow", DType::float32, slow));
      ASSERT_TRUE(sums(runtime, "x"));
      while (!handle.poll()) std::this_thread::yield();
      ASSERT_EQ(slow.front(), 2.0F);
    }
  });
}

TEST(Engine, WhatWasSubmittedInABlockingScopeGoesOnAfterItThoughNobodyHasWaited) {
  run_local_job(2, [](Runtime& runtime) {
    for (int step = 0; step < 100; ++step) {
      std::vector<float> data(8, 1.0F);
      std::promise<void> ended;
      Entry entry = in_place(Operation::allreduce, "x", DType::float32, data);
      entry.done = [&ended](const Result&) { ended.set_value(); };
      try {
        const BlockingScope outer;
        const BlockingScope inner;
        runtime.submit(std::move(entry));
        throw std::runtime_error("interrupted");
      } catch (const std::runtime_error&) {
        ended.get_future().wait();
      }
    }
  });
}

TEST(Engine, ManySmallTensorsThatNobodyWaitsForYetAreAllReduced) {
  run_local_job(2, [](Runtime& runtime) {
    std::vector<std::vector<float>> tensors(200, std::vector<float>(4));
    for (int step = 0; step < 20; ++step) {
      std::vector<Handle> handles;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        tensors[i].assign(4, 1.0F);
        handles.push_back(
            runtime.submit(in_place(Operation::allreduce, std::to_string(i), DType::float32, tensors[i])));
      }
      for (const auto& handle : handles) handle.wait();
      for (const auto& tensor : tensors) EXPECT_EQ(tensor, std::vector<float>(4, 2.0F));
    }
  });
}

TEST(Engine, WhatIsSubmittedWhileTheOwnThreadNapsIsReducedThoughNobodyWaits) {
  run_local_job(2, [](Runtime& runtime) {
    constexpr int kSteps = 400;
    std::vector<std::vector<float>> tensors(kSteps);
    std::atomic<int> ended{0};
    for (int step = 0; step < kSteps; ++step) {
      // Between the shortest nap and more than the longest one; every eighth is worth a turn.
      std::this_thread::sleep_for(std::chrono::microseconds(step * 37 % 450));
      auto& tensor = tensors[static_cast<std::size_t>(step)];
      tensor.assign(step % 8 == 7 ? 40'000 : 8, 1.0F);
      Entry entry = in_place(Operation::allreduce, std::to_string(step % 50) + (step < 200 ? "a" : "b"),
                             DType::float32, tensor);
      entry.done = [&ended](const Result&) {
        ++ended;
        ended.notify_all();
      };
      runtime.submit(std::move(entry));
      // Names come again: then that operation has to have ended.
      if (step % 50 == 49)
        for (int now = ended; now < step + 1; now = ended) ended.wait(now);
    }
    for (const auto& tensor : tensors) ASSERT_EQ(tensor.front(), 2.0F);
  });
}

TEST(Engine, ManyThreadsOfARankWaitAtATime) {
  run_local_job(2, [](Runtime& runtime) {
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&runtime, name = "t" + std::to_string(thread)] {
        for (int step = 0; step < 200; ++step) ASSERT_TRUE(sums(runtime, name));
      });
    }
    for (auto& thread : threads) thread.join();
  });
}

TEST(Engine, ADeadlineEndsTheHelpAndTheOperationGoesOn) {
  run_local_job(2, [](Runtime& runtime) {
    std::vector<float> data(8, 1.0F);
    if (runtime.rank() == 0) {
      const Handle handle = runtime.submit(in_place(Operation::allreduce, "x", DType::float32, data));
      EXPECT_FALSE(handle.wait_for(std::chrono::milliseconds(20)));
      EXPECT_TRUE(sums(runtime, "now"));
      handle.wait();
    } else {
      EXPECT_TRUE(sums(runtime, "now"));
      runtime.submit(in_place(Operation::allreduce, "x", DType::float32, data)).wait();
    }
    EXPECT_EQ(data.front(), 2.0F);
  });
}

TEST(Engine, WhoWaitsWhenTheJobEndsIsToldSo) {
  local::LocalGroup group(2);
  std::vector<float> data(8, 1.0F);
  std::optional<Handle> handle;
  std::thread waiting;
  run_ranks(2, [&](int rank) {
    Config config;
    config.rank = rank;
    config.size = 2;
    Runtime runtime(group.join(rank), config);
    if (rank != 0) return;
    handle = runtime.submit(in_place(Operation::allreduce, "x", DType::float32, data));
    waiting = std::thread([&handle] { EXPECT_THROW(handle->wait(), Error); });
  });  // both runtimes are gone
  waiting.join();
  EXPECT_THROW(handle->wait(), Error);
}

TEST(Engine, WhatIsDoneMaySubmitMore) {
  run_local_job(2, [](Runtime& runtime) {
    for (int step = 0; step < 100; ++step) {
      std::vector<float> first(8, 1.0F);
      std::vector<float> second(8, 1.0F);
      std::optional<Handle> next;
      Entry entry = in_place(Operation::allreduce, "first", DType::float32, first);
      entry.done = [&](const Result&) {
        next = runtime.submit(in_place(Operation::allreduce, "second", DType::float32, second));
      };
      runtime.run(std::move(entry));
      next->wait();
      ASSERT_EQ(second.front(), 2.0F);
    }
  });
}

}  // namespace
}  // namespace hora
