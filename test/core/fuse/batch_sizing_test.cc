// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/batch_sizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hora {
namespace {

constexpr std::size_t kLarge = std::size_t{4} << 20;
const TimePoint kNow = Clock::now();

/// A network of 40 us for a batch itself, and 1,000 bytes in a microsecond.
void measure(BatchSizing& sizing, std::size_t bytes) {
  sizing.add(bytes, std::chrono::microseconds(40 + bytes / 1000));
}

TEST(BatchSizing, LearnsThePaceOfTheNetworkAndThenMeasuresNoMore) {
  BatchSizing sizing(Config{}, FusionThresholds{}, false);
  ASSERT_TRUE(sizing.measures());
  EXPECT_EQ(sizing.end_step(kNow, 1), std::nullopt);
  measure(sizing, 4096);
  measure(sizing, kLarge);
  const auto chosen = sizing.end_step(kNow, 1);
  ASSERT_TRUE(chosen);
  EXPECT_GE(*chosen, kLarge);
  EXPECT_FALSE(sizing.measures());
}

TEST(BatchSizing, SaysNothingWhereThePaceAsksForWhatIsUsedAlready) {
  const auto chosen_at = [](std::size_t host) {
    BatchSizing sizing(Config{}, FusionThresholds{}, false);
    measure(sizing, 4096);
    measure(sizing, kLarge);
    return sizing.end_step(kNow, host);
  };
  EXPECT_EQ(chosen_at(chosen_at(1).value()), std::nullopt);
}

TEST(BatchSizing, GivesUpAfterTenStepsThatShowNothing) {
  BatchSizing sizing(Config{}, FusionThresholds{}, false);
  for (int step = 0; step < 10; ++step) {
    EXPECT_TRUE(sizing.measures()) << step;
    EXPECT_EQ(sizing.end_step(kNow, 1), std::nullopt);
  }
  EXPECT_FALSE(sizing.measures());
}

TEST(BatchSizing, LeavesWhatTheUserHasSetAndWhatDoesNotMatter) {
  Config set;
  set.fusion_threshold = kLarge;
  EXPECT_FALSE(BatchSizing(set, FusionThresholds{}, false).measures());
  EXPECT_FALSE(BatchSizing(Config{}, FusionThresholds{}, true).measures()) << "all ranks share memory";
}

TEST(BatchSizing, TriesSizesWhereTheUserWishesForThat) {
  Config tuned;
  tuned.autotune = true;
  tuned.autotune_steps = 1;
  BatchSizing sizing(tuned, FusionThresholds{}, true);
  EXPECT_FALSE(sizing.measures());
  testing::internal::CaptureStderr();
  TimePoint now = kNow;
  int changes = 0;
  for (int step = 0; step < 1000; ++step) {
    now += std::chrono::milliseconds(10);
    if (sizing.end_step(now, kLarge)) ++changes;
  }
  const std::string found = testing::internal::GetCapturedStderr();
  EXPECT_GT(changes, 2);
  EXPECT_NE(found.find("MiB"), std::string::npos) << found;
}

/// The text that a user gets after trials, with these thresholds set (0: not set).
std::string found_with(std::size_t host, std::size_t gpu) {
  Config tuned;
  tuned.autotune = true;
  tuned.autotune_steps = 1;
  tuned.fusion_threshold = host;
  tuned.gpu_fusion_threshold = gpu;
  BatchSizing sizing(tuned, first_thresholds(tuned), true);
  testing::internal::CaptureStderr();
  TimePoint now = kNow;
  for (int step = 0; step < 1000; ++step)
    static_cast<void>(sizing.end_step(now += std::chrono::milliseconds(10), kLarge));
  return testing::internal::GetCapturedStderr();
}

TEST(BatchSizing, AdvisesTheVariablesOfWhatItHasTuned) {
  using testing::AllOf;
  using testing::HasSubstr;
  using testing::Not;
  const char* const host = " HORA_FUSION_THRESHOLD=";
  const char* const gpu = " HORA_GPU_FUSION_THRESHOLD=";
  EXPECT_THAT(found_with(0, 0), AllOf(HasSubstr(host), HasSubstr(gpu)));
  EXPECT_THAT(found_with(0, kLarge), AllOf(HasSubstr(host), Not(HasSubstr(gpu))));
  EXPECT_THAT(found_with(kLarge, 0), AllOf(HasSubstr(gpu), Not(HasSubstr(host))));
}

TEST(BatchSizing, SaysThatThereIsNothingToTry) {
  Config tuned;
  tuned.autotune = true;
  tuned.fusion_threshold = tuned.gpu_fusion_threshold = kLarge;
  testing::internal::CaptureStderr();
  BatchSizing sizing(tuned, FusionThresholds{}, true);
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("HORA_AUTOTUNE has nothing to choose"), std::string::npos) << text;
  EXPECT_EQ(sizing.end_step(kNow, kLarge), std::nullopt);
}

}  // namespace
}  // namespace hora
