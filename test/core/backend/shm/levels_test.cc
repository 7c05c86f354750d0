// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/levels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::shm {
namespace {

using testing::ElementsAre;

/// The members of each group of a level.
std::vector<std::vector<int>> members(const Levels& levels, std::size_t level) {
  std::vector<std::vector<int>> all;
  for (const auto& group : levels.groups(level)) all.push_back(group.members);
  return all;
}

TEST(Levels, PutTogetherWhoSharesACacheAndThenASocket) {
  std::vector<Nearness> ranks;
  for (std::uint32_t rank = 0; rank < 8; ++rank) ranks.push_back({rank / 2 + 1, rank / 4 + 1});
  const Levels levels(ranks);
  ASSERT_EQ(levels.count(), 3u);
  EXPECT_THAT(members(levels, 1),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6, 7)));
  EXPECT_THAT(members(levels, 2), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(members(levels, 3), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
  EXPECT_THAT(levels.group_of(1, 5).parts, ElementsAre(4, 5));
  EXPECT_THAT(levels.group_of(2, 5).parts, ElementsAre(2, 3));
  EXPECT_THAT(levels.group_of(3, 5).parts, ElementsAre(0, 1));
}

TEST(Levels, TakeRanksThatWereBoundInTurn) {
  std::vector<Nearness> ranks;
  for (std::uint32_t rank = 0; rank < 5; ++rank) ranks.push_back({rank % 2 + 1, 1});
  const Levels levels(ranks);
  ASSERT_EQ(levels.count(), 2u);
  EXPECT_THAT(members(levels, 1), ElementsAre(ElementsAre(0, 2, 4), ElementsAre(1, 3)));
}

TEST(Levels, AreOneWhereNobodyOrEverybodyIsNear) {
  const std::vector<Nearness> all(4, Nearness{1, 1});
  const std::vector<Nearness> unknown(4);
  std::vector<Nearness> alone;
  for (std::uint32_t rank = 0; rank < 4; ++rank) alone.push_back({rank + 1, 1});
  for (const auto& ranks : {all, unknown, alone}) {
    const Levels levels(ranks);
    EXPECT_EQ(levels.count(), 1u);
    EXPECT_THAT(members(levels, 1), ElementsAre(ElementsAre(0, 1, 2, 3)));
  }
}

TEST(Levels, LeaveOutWhatIsNotKnownOfEverybody) {
  std::vector<Nearness> ranks;
  for (std::uint32_t rank = 0; rank < 8; ++rank) ranks.push_back({rank / 2 + 1, rank / 4 + 1});
  ranks[3].cache = 0;
  const Levels levels(ranks);
  ASSERT_EQ(levels.count(), 2u);
  EXPECT_THAT(members(levels, 1), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
}

TEST(Levels, LeaveOutALevelThatPutsNothingTogether) {
  std::vector<Nearness> ranks;
  for (std::uint32_t rank = 0; rank < 6; ++rank) ranks.push_back({rank / 3 + 1, rank / 3 + 1});
  EXPECT_EQ(Levels(ranks).count(), 2u);
}

TEST(Levels, CanBeGivenAsSizes) {
  const std::vector<int> sizes{2, 4};
  const Levels levels(7, sizes);
  ASSERT_EQ(levels.count(), 3u);
  EXPECT_THAT(members(levels, 1),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(4, 5), ElementsAre(6)));
  EXPECT_THAT(members(levels, 2), ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6)));
  EXPECT_EQ(Levels(7, {}).count(), 1u);
  EXPECT_EQ(Levels(1, sizes).count(), 1u);
}

}  // namespace
}  // namespace hora::shm
