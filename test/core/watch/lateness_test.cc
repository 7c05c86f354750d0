// SPDX-License-Identifier: Apache-2.0
#include "core/watch/lateness.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Steps of a training of two ranks, one after the other.
class Steps {
 public:
  void add(Clock::duration takes, Clock::duration first, Clock::duration second) {
    now_ += takes;
    lateness_.add({++number_, {first, second}}, now_);
  }
  [[nodiscard]] const Lateness& lateness() const { return lateness_; }
  [[nodiscard]] TimePoint now() const { return now_; }

 private:
  Lateness lateness_{2};
  TimePoint now_;
  std::uint64_t number_ = 0;
};

TEST(Lateness, IsNothingBeforeTheFirstStep) {
  const Lateness lateness(2);
  EXPECT_EQ(lateness.steps(), 0u);
  EXPECT_EQ(lateness.rate(), 0);
  EXPECT_EQ(lateness.of(1).p99.count(), 0);
}

TEST(Lateness, TellsMedianAndWorstAndWhoCameLast) {
  Steps steps;
  for (int i = 1; i <= 100; ++i) steps.add(milliseconds(10), {}, milliseconds(i));
  const auto other = steps.lateness().of(1);
  EXPECT_EQ(other.median, milliseconds(50));
  EXPECT_EQ(other.p99, milliseconds(99));
  EXPECT_EQ(other.last, 1);
  EXPECT_EQ(steps.lateness().of(0).last, 0);
  EXPECT_EQ(steps.lateness().of(0).p99.count(), 0);
  EXPECT_EQ(steps.lateness().steps(), 100u);
}

TEST(Lateness, CountsNobodyAsTheLastOfAStepInWhichNobodyWaited) {
  Steps steps;
  steps.add(milliseconds(10), {}, {});
  steps.add(milliseconds(10), milliseconds(1), {});
  EXPECT_EQ(steps.lateness().of(0).last, 0.5);
  EXPECT_EQ(steps.lateness().of(1).last, 0);
}

TEST(Lateness, ForgetsWhatIsLongAgo) {
  Steps steps;
  for (std::size_t i = 0; i < 100; ++i) steps.add(milliseconds(10), seconds(3), {});
  for (std::size_t i = 0; i < Lateness::kSteps; ++i) steps.add(milliseconds(10), {}, microseconds(7));
  EXPECT_EQ(steps.lateness().of(0).p99.count(), 0);
  EXPECT_EQ(steps.lateness().of(1).median, microseconds(7));
  EXPECT_EQ(steps.lateness().of(1).last, 1);
  EXPECT_EQ(steps.lateness().steps(), 100 + Lateness::kSteps);
}

TEST(Lateness, KeepsTimesThatAreOutOfAllProportion) {
  Steps steps;
  steps.add(milliseconds(10), std::chrono::hours(10), {});
  EXPECT_GT(steps.lateness().of(0).median, std::chrono::hours(1));
}

TEST(Lateness, TellsTheRateOfTheLastSeconds) {
  Steps steps;
  steps.add(seconds(100), {}, {});
  EXPECT_EQ(steps.lateness().rate(), 0);
  for (int i = 0; i < 5; ++i) steps.add(seconds(20), {}, {});
  EXPECT_DOUBLE_EQ(steps.lateness().rate(), 0.05) << "of the last two, as more are too long ago";
  for (int i = 0; i < 50; ++i) steps.add(milliseconds(500), {}, {});
  EXPECT_DOUBLE_EQ(steps.lateness().rate(), 2);
  for (int i = 0; i < 1000; ++i) steps.add(milliseconds(1), {}, {});
  EXPECT_DOUBLE_EQ(steps.lateness().rate(), 1000) << "of all that are remembered";
  EXPECT_EQ(steps.lateness().ended(), steps.now());
}

}  // namespace
}  // namespace hora
