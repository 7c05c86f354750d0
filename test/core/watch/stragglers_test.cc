// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stragglers.h"

#include "test/core/watch/members.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::milliseconds;

/// Steps of a training, one after the other.
class Training {
 public:
  explicit Training(int steps) : stragglers_(steps, kMembers) { add({}, {}); }

  std::optional<std::string> add(milliseconds takes, std::vector<Clock::duration> behind) {
    now_ += takes;
    return stragglers_.add({++number_, std::move(behind)}, now_);
  }
  /// The line after so many steps that are alike; those before are none.
  std::optional<std::string> add(int steps, milliseconds takes, const std::vector<Clock::duration>& behind) {
    for (int i = 1; i < steps; ++i) EXPECT_FALSE(add(takes, behind));
    return add(takes, behind);
  }

 private:
  Stragglers stragglers_;
  TimePoint now_;
  std::uint64_t number_ = 0;
};

TEST(Stragglers, AreNamedWithHowLongTheOthersWaited) {
  Training training(20);
  EXPECT_EQ(
      training.add(20, milliseconds(120), {milliseconds(1), milliseconds(0), milliseconds(50)}),
      "rank 2 (pid 12 on b) holds the others up: in 20 of the last 20 steps it was the last, and they waited "
      "50.0 ms for it in the middle one, of steps of 120.0 ms");
}

TEST(Stragglers, AreNamedAgainAfterAWhile) {
  Training training(5);
  const std::vector<Clock::duration> behind{milliseconds(0), milliseconds(0), milliseconds(50)};
  EXPECT_TRUE(training.add(5, milliseconds(120), behind));
  for (int i = 0; i < 9; ++i) EXPECT_FALSE(training.add(5, milliseconds(120), behind));
  EXPECT_TRUE(training.add(5, milliseconds(120), behind));
  EXPECT_TRUE(training.add(5, milliseconds(120), {milliseconds(60), milliseconds(0), milliseconds(5)}))
      << "another";
}

TEST(Stragglers, AreNotThoseWhoCostLittleOrAreNotAlone) {
  Training training(4);
  EXPECT_FALSE(training.add(4, milliseconds(120), {milliseconds(0), milliseconds(0), milliseconds(11)}));
  EXPECT_FALSE(training.add(4, milliseconds(120), {milliseconds(0), milliseconds(40), milliseconds(50)}));
  EXPECT_FALSE(training.add(4, milliseconds(1), {{}, {}, std::chrono::microseconds(900)}));
}

TEST(Stragglers, AreNotThoseWhoWereLateForLessThanHalfASecond) {
  const std::vector<Clock::duration> behind{milliseconds(0), milliseconds(0), milliseconds(2)};
  Training training(20);
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(training.add(20, milliseconds(4), behind));
  EXPECT_FALSE(training.add(20, milliseconds(4), {{}, {}, {}}));
  for (int i = 0; i < 6; ++i) EXPECT_FALSE(training.add(20, milliseconds(4), behind));
  EXPECT_TRUE(training.add(20, milliseconds(4), behind));
}

TEST(Stragglers, AreNotThoseWhoWereLateOnce) {
  Training training(4);
  EXPECT_FALSE(training.add(milliseconds(1000), {milliseconds(0), milliseconds(0), milliseconds(900)}));
  EXPECT_FALSE(training.add(3, milliseconds(100), {milliseconds(0), milliseconds(2), milliseconds(1)}));
}

TEST(Stragglers, AreNotLookedForWithoutSteps) {
  Training training(0);
  EXPECT_FALSE(training.add(100, milliseconds(120), {milliseconds(0), milliseconds(0), milliseconds(50)}));
}

}  // namespace
}  // namespace hora
