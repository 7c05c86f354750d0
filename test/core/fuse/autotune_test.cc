// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/autotune.h"

#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace hora {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
const std::vector<std::string> kVariables{"HORA_FUSION_THRESHOLD"};

/// Trains until it has ended, with steps that take so long with a size; the size that it ends with, and how
/// many steps that took.
std::pair<std::size_t, int> train(Autotune& autotune,
                                  const std::function<microseconds(std::size_t size, int step)>& time) {
  std::size_t size = 4 * kMebibyte;
  TimePoint now{};
  int step = 0;
  for (; step < 10'000 && !autotune.has_ended(); ++step) {
    now += time(size, step);
    size = autotune.end_step(now).value_or(size);
  }
  EXPECT_EQ(autotune.end_step(now), std::nullopt);
  return {size, step};
}

TEST(Autotune, EndsWithTheSizeThatHadTheFastestSteps) {
  Autotune autotune(4 * kMebibyte, kVariables, 10, {});
  const auto [size, steps] = train(autotune, [](std::size_t tried, int) {
    return microseconds(tried == 16 * kMebibyte ? 9'000 : 10'000);
  });
  EXPECT_EQ(size, 16 * kMebibyte);
  EXPECT_LT(steps, 300);
  EXPECT_THAT(autotune.found(), HasSubstr("HORA_FUSION_THRESHOLD=16777216"));
  EXPECT_THAT(autotune.found(), HasSubstr("4 MiB: 10.00 ms, 8 MiB: 10.00 ms, 16 MiB: 9.00 ms"));
}

TEST(Autotune, KeepsTheUsualSizeWhereOthersAreHardlyFaster) {
  Autotune autotune(4 * kMebibyte, kVariables, 10, {});
  const auto [size, steps] = train(autotune, [](std::size_t tried, int) {
    return microseconds(tried == 16 * kMebibyte ? 9'900 : 10'000);
  });
  EXPECT_EQ(size, 4 * kMebibyte);
}

TEST(Autotune, KeepsTheUsualSizeWhereTrialsOfOneSizeDifferAsMuch) {
  Autotune autotune(4 * kMebibyte, kVariables, 10, {});
  const auto [size, steps] = train(autotune, [](std::size_t tried, int step) {
    return microseconds(tried == 16 * kMebibyte && step > 120 ? 9'000 : 10'000);
  });
  EXPECT_EQ(size, 4 * kMebibyte);
}

TEST(Autotune, TriesTheUsualSizeAlsoWhereItIsNoneOfItsOwn) {
  Autotune autotune(3 * kMebibyte, kVariables, 10, {});
  const auto [size, steps] = train(
      autotune, [](std::size_t tried, int) { return microseconds(tried == 3 * kMebibyte ? 9'000 : 10'000); });
  EXPECT_EQ(size, 3 * kMebibyte);
  EXPECT_THAT(autotune.found(), HasSubstr("2 MiB: 10.00 ms, 3 MiB: 9.00 ms, 4 MiB: 10.00 ms"));
}

TEST(Autotune, IsNotMisledByStepsThatGetFasterOnTheirOwn) {
  Autotune autotune(4 * kMebibyte, kVariables, 10, {});
  const auto [size, steps] = train(autotune, [](std::size_t tried, int step) {
    return microseconds((tried == 2 * kMebibyte ? 8'000 : 10'000) + std::max(0, 100 - step) * 10);
  });
  EXPECT_EQ(size, 2 * kMebibyte);
}

TEST(Autotune, IsNotMisledByTheFirstStepsWithASize) {
  std::size_t last = 0;
  int since = 0;
  Autotune autotune(4 * kMebibyte, kVariables, 5, {});
  const auto [size, steps] = train(autotune, [&](std::size_t tried, int) {
    since = tried == last ? since + 1 : 0;
    last = tried;
    return microseconds(since < 5 ? 100'000 : tried == 8 * kMebibyte ? 5'000 : 10'000);
  });
  EXPECT_EQ(size, 8 * kMebibyte);
}

TEST(Autotune, LogsItsTrialsAsTheyEndAndWhatItHasChosen) {
  const auto path = std::filesystem::path(testing::TempDir()) / "autotune.csv";
  const auto lines = [&path] {
    std::ifstream file(path);
    std::vector<std::string> all;
    for (std::string line; std::getline(file, line);) all.push_back(line);
    return all;
  };
  Autotune autotune(4 * kMebibyte, kVariables, 3, path.string());
  EXPECT_THAT(lines(),
              testing::ElementsAre("trial,fusion_threshold_bytes,steps,median_ms,fastest_ms,slowest_ms"));
  TimePoint now{};
  for (int step = 0; step < 10; ++step) static_cast<void>(autotune.end_step(now += microseconds(1500)));
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_EQ(lines().back(), "1,1048576,3,1.5000,1.5000,1.5000");
  train(autotune, [](std::size_t, int) { return microseconds(1500); });
  EXPECT_EQ(lines().size(), 16u);
  EXPECT_EQ(lines().back(), "chosen,4194304,,1.5000,,");
}

TEST(Autotune, RefusesALogThatItCannotWrite) {
  const Status refused = thrown([] { Autotune(4 * kMebibyte, kVariables, 3, "/nowhere/at/all.csv"); });
  EXPECT_EQ(refused.code, Code::invalid_argument);
  EXPECT_EQ(refused.message,
            "HORA_AUTOTUNE_LOG=/nowhere/at/all.csv: cannot write there: No such file or directory");
}

}  // namespace
}  // namespace hora
