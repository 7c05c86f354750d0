// SPDX-License-Identifier: Apache-2.0
#include "core/comm/wake_up.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

TEST(WakeUp, WakesWhoSleeps) {
  WakeUpWords words{};
  WakeUp wake_up(words);
  std::atomic<int> news{0};
  constexpr int kNews = 2000;
  std::thread teller([&] {
    for (int i = 0; i < kNews; ++i) {
      news.fetch_add(1);
      WakeUp(words).ring();
    }
  });
  // This loop waits as an engine does: it would hang if a ring were missed.
  for (int known = 0; known < kNews;) {
    const auto seen = wake_up.rings();
    known = news.load();
    if (known == kNews) break;
    wake_up.sleeps_for(Sleep::any_news);
    wake_up.wait(seen, TimePoint::max());
    wake_up.sleeps_for(Sleep::none);
  }
  teller.join();
  EXPECT_EQ(wake_up.rings(), static_cast<std::uint32_t>(kNews));
}

TEST(WakeUp, WhatRangBeforeIsNotSleptOver) {
  WakeUpWords words{};
  WakeUp wake_up(words);
  const auto seen = wake_up.rings();
  wake_up.ring();
  wake_up.sleeps_for(Sleep::any_news);
  wake_up.wait(seen, TimePoint::max());
}

TEST(WakeUp, WakesAtTheDeadline) {
  WakeUpWords words{};
  WakeUp wake_up(words);
  const TimePoint deadline = Clock::now() + std::chrono::milliseconds(20);
  wake_up.wait(wake_up.rings(), deadline);
  EXPECT_GE(Clock::now(), deadline);
  wake_up.wait(wake_up.rings(), TimePoint{});  // which has passed
}

TEST(WakeUp, TellsWhetherSomebodyIsToBeWoken) {
  WakeUpWords words{};
  WakeUp wake_up(words);
  EXPECT_FALSE(wake_up.sleeps());
  wake_up.sleeps_for(Sleep::peers);
  EXPECT_TRUE(wake_up.sleeps());
  wake_up.count_submission();
  wake_up.wake_for_submission();  // of which it learns when it is awake
  EXPECT_EQ(wake_up.rings(), 1u);
}

}  // namespace
}  // namespace hora
