// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/ordinal.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(NextOrdinal, CountsWhatHasNoName) {
  EXPECT_EQ(next_ordinal("allreduce.noname.1"), "allreduce.noname.2");
  EXPECT_EQ(next_ordinal("barrier.noname.999"), "barrier.noname.1000");
  EXPECT_EQ(next_ordinal("a.noname.3.noname.9"), "a.noname.3.noname.10");
}

TEST(NextOrdinal, IsNoneForOtherNames) {
  for (const char* name :
       {"", "w", "allreduce.w", "allreduce.noname.", "allreduce.noname.x", "allreduce.noname.3x",
        "allreduce.noname.07", "allreduce.noname.0", "noname.3", "allreduce.noname.3_1of2",
        "allreduce.noname.1234567890123456789", "allreduce.noname.-3"})
    EXPECT_EQ(next_ordinal(name), std::nullopt) << name;
}

TEST(NameOfRepeat, IsTheNameItselfOrTheNextOrdinal) {
  EXPECT_EQ(name_of_repeat("w"), "w");
  EXPECT_EQ(name_of_repeat("allreduce.noname.9"), "allreduce.noname.10");
}

}  // namespace
}  // namespace hora
