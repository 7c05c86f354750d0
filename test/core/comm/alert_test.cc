// SPDX-License-Identifier: Apache-2.0
#include "core/comm/alert.h"

#include <gtest/gtest.h>

#include <thread>

namespace hora {
namespace {

TEST(Alert, WakesWhoSleeps) {
  AlertWords words{};
  Alert alert(words);
  std::atomic<int> news{0};
  constexpr int kNews = 2000;
  std::thread teller([&] {
    for (int i = 0; i < kNews; ++i) {
      news.fetch_add(1);
      Alert(words).ring();
    }
  });
  // This loop waits as an engine does: it would hang if a ring were missed.
  for (int known = 0; known < kNews;) {
    const auto seen = alert.rings();
    known = news.load();
    if (known == kNews) break;
    alert.sleeps_for(Sleep::any_news);
    alert.wait(seen, TimePoint::max());
    alert.sleeps_for(Sleep::none);
  }
  teller.join();
  EXPECT_EQ(alert.rings(), static_cast<std::uint32_t>(kNews));
}

TEST(Alert, WhatRangBeforeIsNotSleptOver) {
  AlertWords words{};
  Alert alert(words);
  const auto seen = alert.rings();
  alert.ring();
  alert.sleeps_for(Sleep::any_news);
  alert.wait(seen, TimePoint::max());
}

TEST(Alert, WakesAtTheDeadline) {
  AlertWords words{};
  Alert alert(words);
  const TimePoint deadline = Clock::now() + std::chrono::milliseconds(20);
  alert.wait(alert.rings(), deadline);
  EXPECT_GE(Clock::now(), deadline);
  alert.wait(alert.rings(), TimePoint{});  // which has passed
}

TEST(Alert, TellsWhetherSomebodyIsToBeWoken) {
  AlertWords words{};
  Alert alert(words);
  EXPECT_FALSE(alert.sleeps());
  alert.sleeps_for(Sleep::peers);
  EXPECT_TRUE(alert.sleeps());
  alert.count_submission();
  alert.wake_for_submission();  // of which it learns when it is awake
  EXPECT_EQ(alert.rings(), 1u);
}

}  // namespace
}  // namespace hora
