// SPDX-License-Identifier: Apache-2.0
#include "core/device/fastest_copy.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace hora {
namespace {

TEST(FastestCopy, CopiesInEitherWay) {
  FastestCopy fastest_copy;
  std::vector<std::byte> from(300'000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = std::byte(i * 7);
  for (int i = 0; i < 40; ++i) {
    std::vector<std::byte> to(from.size());
    fastest_copy.copy(to.data(), from.data(), from.size());
    ASSERT_EQ(to, from);
  }
  fastest_copy.copy(nullptr, nullptr, 0);
}

TEST(FastestCopy, CopiesInTheWayThatIsTold) {
  for (const bool streams : {false, true}) {
    FastestCopy fastest_copy(streams);
    const std::vector<std::byte> from(100'000, std::byte{7});
    std::vector<std::byte> to(from.size());
    fastest_copy.copy(to.data(), from.data(), from.size());
    EXPECT_EQ(to, from);
  }
}

}  // namespace
}  // namespace hora
