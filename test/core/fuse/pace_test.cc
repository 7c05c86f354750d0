// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/pace.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kMiB = std::size_t{1} << 20;

/// The time of a batch at 40 us for itself, and 1,000 bytes in a microsecond.
Clock::duration time_of(std::size_t bytes) { return microseconds(40 + bytes / 1000); }

TEST(Pace, SaysNothingBeforeItHasSeenSizesThatAreFarApart) {
  Pace pace;
  EXPECT_EQ(pace.batch_bytes(), std::nullopt);
  pace.add(1000, time_of(1000));
  EXPECT_EQ(pace.batch_bytes(), std::nullopt);
  pace.add(7000, time_of(7000));
  EXPECT_EQ(pace.batch_bytes(), std::nullopt);
}

TEST(Pace, IsNotMisledByBatchesThatWaitedForSomebody) {
  const auto learn = [](microseconds alpha, double bytes_in_a_microsecond) {
    Pace pace;
    for (const std::size_t bytes : {4 * kMiB, std::size_t{4096}}) {
      const microseconds time =
          alpha + microseconds(static_cast<int>(static_cast<double>(bytes) / bytes_in_a_microsecond));
      pace.add(bytes, time + std::chrono::seconds(1));
      pace.add(bytes, time);
      pace.add(bytes, time + microseconds(500));
    }
    return pace.batch_bytes();
  };
  EXPECT_EQ(learn(microseconds(40), 1'000), 4 * kMiB);    // 2.6 MB would do
  EXPECT_EQ(learn(microseconds(40), 5'000), 8 * kMiB);    // 12.8 MB
  EXPECT_EQ(learn(microseconds(40), 12'000), 16 * kMiB);  // 30.7 MB
  EXPECT_EQ(learn(microseconds(400), 12'000), 64 * kMiB);
}

TEST(Pace, TakesTheLargestWhereBytesCostNothing) {
  Pace pace;
  pace.add(4096, microseconds(50));
  pace.add(kMiB, microseconds(50));
  EXPECT_EQ(pace.batch_bytes(), 64 * kMiB);
}

TEST(Pace, TakesNoNoticeOfBatchesWithoutBytes) {
  Pace pace;
  pace.add(0, microseconds(1));
  pace.add(kMiB, microseconds(50));
  EXPECT_EQ(pace.batch_bytes(), std::nullopt);
}

}  // namespace
}  // namespace hora
