// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/circle.h"

#include "test/core/backend/shm/arenas.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora::shm {
namespace {

TEST(Circle, OfAllRanksSitsAtTheHeadOfTheArena) {
  const auto arenas = make_arenas(2);
  const Circle circle(arenas[1], 1, 2);
  EXPECT_EQ(&circle.own_seat(), &arenas[1]->seat(1));
  EXPECT_EQ(circle.rank_at(0), 0);
}

TEST(Circle, OfSomeRanksCallsThemByTheirPlaces) {
  const auto arenas = make_arenas(3);
  const int members[] = {0, 2};
  const std::uint64_t offsets[] = {arenas[0]->take_seat(), arenas[2]->take_seat()};
  const Circle circle(arenas[2], 1, members, offsets);
  EXPECT_EQ(circle.size(), 2);
  EXPECT_EQ(circle.rank_at(circle.place()), 2);
  EXPECT_NE(&circle.own_seat(), &arenas[2]->seat(2));
}

TEST(Circle, RefusesSeatsThatCannotBeThere) {
  const auto arenas = make_arenas(1);
  const int members[] = {0};
  const std::uint64_t beyond[] = {arenas[0]->size()};
  const std::uint64_t crooked[] = {arenas[0]->take_seat() + 8};
  EXPECT_THROW(Circle(arenas[0], 0, members, beyond), Error);
  EXPECT_THROW(Circle(arenas[0], 0, members, crooked), Error);
}

}  // namespace
}  // namespace hora::shm
