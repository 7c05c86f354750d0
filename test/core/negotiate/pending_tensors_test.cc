// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/pending_tensors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace hora {
namespace {

using std::chrono::milliseconds;

TEST(PendingTensors, AnyCourseOfAskingAndErasingKeepsThemByAge) {
  std::mt19937 random(3);
  PendingTensors pending;
  std::map<std::string, TimePoint> expected;
  for (int turn = 0; turn < 2000; ++turn) {
    const std::string name(1, static_cast<char>('a' + random() % 8));
    const TimePoint since{milliseconds(static_cast<int>(random() % 100))};
    if (random() % 4 == 0) {
      if (const auto entry = pending.find(name); entry != pending.end()) pending.erase(entry);
      expected.erase(name);
    } else {
      const auto [entry, behind] = pending.find_or_add(name, since);
      const auto [known, fresh] = expected.try_emplace(name, since);
      EXPECT_EQ(entry->first, name);
      EXPECT_EQ(behind, fresh ? Clock::duration::zero() : since - known->second);
      known->second = std::min(known->second, since);
    }
    ASSERT_EQ(pending.by_name().size(), expected.size());
    ASSERT_EQ(pending.by_age().size(), expected.size());
    EXPECT_EQ(pending.empty(), expected.empty());
    TimePoint last{};
    for (const auto& [age, own] : pending.by_age()) {
      EXPECT_LE(last, age);
      EXPECT_EQ(age, expected.at(own));
      EXPECT_EQ(age, pending.at(own).since);
      last = age;
    }
    EXPECT_EQ(pending.oldest(), pending.empty() ? TimePoint::max() : pending.by_age().front().first);
  }
  pending.clear();
  EXPECT_TRUE(pending.empty());
  EXPECT_EQ(pending.oldest(), TimePoint::max());
}

}  // namespace
}  // namespace hora
