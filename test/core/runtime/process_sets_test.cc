// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/process_sets.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(ProcessSets, BeginWithAllRanks) {
  const ProcessSets sets(3);
  EXPECT_EQ(sets.ranks_of(0), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(sets.number_of({{0, 1, 2}, ""}), 0);
}

TEST(ProcessSets, NeverGiveANumberTwice) {
  ProcessSets sets(3);
  EXPECT_EQ(sets.add({{0}, ""}), 1);
  sets.remove(1);
  EXPECT_EQ(sets.ranks_of(1), std::nullopt);
  EXPECT_EQ(sets.add({{0}, ""}), 2);
  EXPECT_EQ(sets.all().size(), 2u);
}

TEST(ProcessSets, AreKnownByTheirRanksAndTheirNames) {
  ProcessSets sets(3);
  sets.add({{0, 1}, "a"});
  sets.add({{0, 1}, "b"});
  EXPECT_EQ(sets.number_of({{0, 1}, ""}), std::nullopt);
  EXPECT_EQ(sets.number_of({{0, 1}, "b"}), 2);
  EXPECT_EQ(sets.number_of({{2}, "b"}), std::nullopt);
  sets.add({{0, 1}, ""});
  EXPECT_EQ(sets.number_of({{0, 1}, ""}), 3);
}

}  // namespace
}  // namespace hora
