// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/control/letter_box.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace hora::tcp {
namespace {

TEST(LetterBox, KeepsTheOrderAndNeverWaitsPastTheDeadline) {
  LetterBox box;
  EXPECT_FALSE(box.receive(TimePoint::min()));
  EXPECT_FALSE(box.receive(Clock::now()));
  box.put({1, {}, {}, {}});
  box.put({2, {}, {}, {}});
  EXPECT_EQ(box.receive(TimePoint::min())->from, 1);
  EXPECT_EQ(box.receive(TimePoint::max())->from, 2);
}

TEST(LetterBox, WakesItsReceiverAndNoticesEveryLetter) {
  constexpr int kLetters = 1000;
  LetterBox box;
  std::atomic<int> notices = 0;
  box.on_letter([&] { ++notices; });
  std::thread sender([&] {
    for (int letter = 0; letter < kLetters; ++letter) box.put({letter, {}, {}, {}});
  });
  for (int letter = 0; letter < kLetters; ++letter) EXPECT_EQ(box.receive(TimePoint::max())->from, letter);
  sender.join();
  EXPECT_EQ(notices, kLetters);
  box.on_letter({});
  box.put({});
  EXPECT_EQ(notices, kLetters);
}

}  // namespace
}  // namespace hora::tcp
