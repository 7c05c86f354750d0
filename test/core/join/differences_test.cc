// SPDX-License-Identifier: Apache-2.0
#include "core/join/differences.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using Lines = std::vector<std::string>;

TEST(DescribeDifferences, FindsNoneBetweenListsInAnotherOrder) {
  const std::vector<Item> list{{"a", "float32[3]"}, {"b", "int8[]"}};
  EXPECT_EQ(describe_differences({list, {list[1], list[0]}}, {0, 1}), Lines{});
  EXPECT_EQ(describe_differences({list}, {0}), Lines{});
}

TEST(DescribeDifferences, NamesWhatIsOtherMissingAndTooMuch) {
  EXPECT_EQ(
      describe_differences({{{"a", "float32[3]"}, {"b", "int8[]"}}, {{"a", "float32[4]"}, {"c", "x"}}},
                           {2, 5}),
      Lines{"rank 5: 'a' is float32[4], and float32[3] on rank 2; 'b' is missing; 'c' is not on rank 2"});
}

TEST(DescribeDifferences, TellsOfRanksThatAreAlikeTogether) {
  const std::vector<Item> first{{"a", "1"}};
  const std::vector<Item> other{{"a", "2"}};
  EXPECT_EQ(describe_differences({first, other, {}, other, first}, {0, 1, 2, 3, 4}),
            (Lines{"ranks 1 and 3: 'a' is 2, and 1 on rank 0", "rank 2: 'a' is missing"}));
}

TEST(DescribeDifferences, CountsMoreThanAnybodyReads) {
  std::vector<Item> many;
  for (int i = 0; i < 9; ++i) many.push_back({std::to_string(i), ""});
  EXPECT_EQ(describe_differences({{}, many}, {0, 1}),
            Lines{"rank 1: '0' is not on rank 0; '1' is not on rank 0; '2' is not on rank 0; '3' is not on "
                  "rank 0; '4' is not on rank 0; and 4 more"});
}

}  // namespace
}  // namespace hora
