// SPDX-License-Identifier: Apache-2.0
#include "core/compose/courier.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <vector>

namespace hora {
namespace {

TEST(Courier, RunsErrandsInTheirOrder) {
  Courier courier;
  std::vector<int> done;  // the courier writes, and what `await` has seen may be read
  for (int round = 0; round < 100; ++round) {
    std::uint64_t last = 0;
    for (int i = 0; i < 10; ++i) last = courier.send([&done, i] { done.push_back(i); });
    courier.await(last);
    ASSERT_EQ(done, (std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}));
    done.clear();
  }
}

TEST(Courier, WorksWhileTheEngineDoesSomethingElse) {
  Courier courier;
  std::promise<void> go;
  const auto first = courier.send([&] { go.get_future().wait(); });
  const auto second = courier.send([] {});
  go.set_value();
  courier.await(second);
  courier.await(first);
  courier.await(0);
}

TEST(Courier, AFailureIsTheLastErrandThatIsRun) {
  Courier courier;
  std::atomic<int> run = 0;
  const auto good = courier.send([&] { ++run; });
  const auto bad = courier.send([]() { throw Error(Code::aborted, "rank 1 is gone"); });
  const auto behind = courier.send([&] { ++run; });
  courier.drain();
  courier.await(good);
  for (const auto errand : {bad, behind, courier.send([&] { ++run; })}) {
    try {
      courier.await(errand);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), (Status{Code::aborted, "rank 1 is gone"}));
    }
  }
  EXPECT_EQ(run, 1);
}

TEST(Courier, WhatIsNotOursIsAFailureToo) {
  Courier courier;
  const auto errand = courier.send([] { throw std::runtime_error("no memory"); });
  try {
    courier.await(errand);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), (Status{Code::internal, "no memory"}));
  }
}

TEST(Courier, GoesWhenItsErrandsAreDone) {
  std::atomic<int> run = 0;
  for (int i = 0; i < 50; ++i) {
    Courier courier;
    for (int errand = 0; errand < i % 4; ++errand) courier.send([&] { ++run; });
  }
  EXPECT_EQ(run, 12 * (0 + 1 + 2 + 3) + 0 + 1);
}

}  // namespace
}  // namespace hora
