// SPDX-License-Identifier: Apache-2.0
#include "core/base/memory.h"

#include <hora/status.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace hora {
namespace {

TEST(AllocateAligned, GivesWholeCacheLinesAlsoForNothing) {
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 4096}) {
    const auto memory = allocate_aligned(bytes);
    ASSERT_NE(memory, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.get()) % 64, 0U);
  }
}

TEST(AllocateAligned, SaysHowMuchThereIsNot) {
  try {
    static_cast<void>(allocate_aligned(std::numeric_limits<std::size_t>::max() / 4));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_STREQ(error.what(), "there is no memory for 4611686018427387903 bytes");
  }
}

TEST(AllocateZeroed, IsZero) {
  const auto memory = allocate_zeroed(1000);
  EXPECT_TRUE(std::all_of(memory.get(), memory.get() + 1000, [](std::byte b) { return b == std::byte{0}; }));
}

TEST(AllocateZeroed, RefusesSizesThatNoMemoryHas) {
  EXPECT_THROW(allocate_zeroed(std::numeric_limits<std::size_t>::max()), Error);
  EXPECT_THROW(allocate_zeroed(std::numeric_limits<std::size_t>::max() - 63), Error);
}

TEST(KeepForEver, DoesSo) {
  const auto owned = std::make_shared<int>(7);
  keep_for_ever(owned);
  EXPECT_EQ(owned.use_count(), 2);
}

}  // namespace
}  // namespace hora
