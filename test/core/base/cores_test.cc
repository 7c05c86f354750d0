// SPDX-License-Identifier: Apache-2.0
#include "core/base/cores.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

namespace hora {
namespace {

TEST(CoreQuota, IsRoundedDownButAtLeastOne) {
  EXPECT_EQ(core_quota_in("200000 100000"), 2);
  EXPECT_EQ(core_quota_in("150000 100000\n"), 1);
  EXPECT_EQ(core_quota_in("10000 100000"), 1);
}

TEST(CoreQuota, IsNoLimitWhenThereIsNoneOrItCannotBeRead) {
  for (const char* text : {"max 100000", "", "max", "x y", "100 0", "-5 100"}) {
    EXPECT_EQ(core_quota_in(text), std::numeric_limits<int>::max()) << text;
  }
}

TEST(Cores, CountsBits) {
  CoreSet cores{};
  EXPECT_EQ(count_cores(cores), 0);
  cores[0] = 5;
  cores[15] = std::uint64_t{1} << 63;
  EXPECT_EQ(count_cores(cores), 3);
}

TEST(Cores, ThisThreadMayRunSomewhere) { EXPECT_GE(count_cores(usable_cores()), 1); }

TEST(Cores, AnotherProcessMayRunSomewhere) { EXPECT_GE(count_cores(usable_cores(::getppid())), 1); }

TEST(Cores, AProcessThatIsNotThereMayRunNowhere) {
  EXPECT_EQ(count_cores(usable_cores(std::numeric_limits<int>::max())), 0);
}

}  // namespace
}  // namespace hora
