// SPDX-License-Identifier: Apache-2.0
#include "core/comm/tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;

TEST(Tree, InAStarAllAreChildrenOfRankZero) {
  EXPECT_THAT(position_in_tree(0, 4, 0).children, ElementsAre(1, 2, 3));
  EXPECT_EQ(position_in_tree(3, 4, 0).parent, 0);
  EXPECT_TRUE(position_in_tree(3, 4, 0).children.empty());
  EXPECT_TRUE(position_in_tree(0, 1, 0).children.empty());
}

TEST(Tree, SubtreesAreRunsOfRanks) {
  const TreePosition root = position_in_tree(0, 10, 2);
  EXPECT_THAT(root.children, ElementsAre(1, 6));
  EXPECT_EQ(root.below(0), RankSet(1, 6));
  EXPECT_EQ(root.below(1), RankSet(6, 10));
  EXPECT_EQ(root.child(6), 1);
  EXPECT_EQ(root.child(7), -1);
  const TreePosition inner = position_in_tree(6, 10, 2);
  EXPECT_EQ(inner.parent, 0);
  EXPECT_THAT(inner.children, ElementsAre(7, 9));
  EXPECT_EQ(position_in_tree(8, 10, 2).parent, 7);
}

TEST(Tree, ParentsAndChildrenKnowEachOther) {
  for (const int radix : {0, 1, 2, 3, 16}) {
    for (const int size : {1, 2, 3, 17, 18, 100, 300}) {
      RankSet seen(0);
      for (int rank = 0; rank < size; ++rank) {
        const TreePosition position = position_in_tree(rank, size, radix);
        RankSet subtree(rank);
        EXPECT_TRUE(radix == 0 || static_cast<int>(position.children.size()) <= radix);
        for (std::size_t i = 0; i < position.children.size(); ++i) {
          const TreePosition child = position_in_tree(position.children[i], size, radix);
          EXPECT_EQ(child.parent, rank);
          EXPECT_EQ(position.below(i), RankSet(position.children[i], child.end));
          subtree.add(position.below(i));
          seen.add(RankSet(position.children[i]));
        }
        EXPECT_EQ(subtree, RankSet(rank, position.end));
      }
      EXPECT_EQ(seen, RankSet(0, size));
    }
  }
}

TEST(Tree, TenThousandRanksAreFewLevels) {
  const auto levels = [](int radix) {
    int most = 0;
    for (int rank = 0; rank < 10000; rank += 7) {
      int level = 0;
      for (int at = rank; at != 0; ++level) at = position_in_tree(at, 10000, radix).parent;
      most = std::max(most, level);
    }
    return most;
  };
  EXPECT_EQ(levels(16), 4);
  EXPECT_EQ(levels(32), 3);
}

}  // namespace
}  // namespace hora
