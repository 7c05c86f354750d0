// SPDX-License-Identifier: Apache-2.0
#include "core/compose/worker.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

namespace hora {
namespace {

TEST(Worker, RunsTasksInTheirOrder) {
  Worker worker;
  std::vector<int> done;  // the worker writes, and what `await` has seen may be read
  for (int round = 0; round < 100; ++round) {
    std::uint64_t last = 0;
    for (int i = 0; i < 10; ++i) last = worker.send([&done, i] { done.push_back(i); });
    worker.await(last);
    ASSERT_EQ(done, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    done.clear();
  }
}

TEST(Worker, WorksWhileTheEngineDoesSomethingElse) {
  Worker worker;
  std::promise<void> go;
  const auto first = worker.send([&] { go.get_future().wait(); });
  const auto second = worker.send([] {});
  go.set_value();
  worker.await(second);
  worker.await(first);
  worker.await(0);
}

TEST(Worker, AFailureIsTheLastTaskThatIsRun) {
  Worker worker;
  std::atomic<int> run = 0;
  const auto good = worker.send([&] { ++run; });
  const auto bad = worker.send([]() { throw Error(Code::aborted, "rank 1 is gone"); });
  const auto behind = worker.send([&] { ++run; });
  worker.drain();
  worker.await(good);
  for (const auto task : {bad, behind, worker.send([&] { ++run; })}) {
    try {
      worker.await(task);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), (Status{Code::aborted, "rank 1 is gone"}));
    }
  }
  EXPECT_EQ(run, 1);
}

TEST(Worker, WhatIsNotOursIsAFailureToo) {
  Worker worker;
  const auto task = worker.send([] { throw std::runtime_error("no memory"); });
  try {
    worker.await(task);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), (Status{Code::internal, "no memory"}));
  }
}

TEST(Worker, GoesWhenItsTasksAreDone) {
  std::atomic<int> run = 0;
  for (int i = 0; i < 50; ++i) {
    Worker worker;
    for (int task = 0; task < i % 4; ++task) worker.send([&] { ++run; });
  }
  EXPECT_EQ(run, 12 * (0 + 1 + 2 + 3) + 0 + 1);
}

}  // namespace
}  // namespace hora
