// SPDX-License-Identifier: Apache-2.0
#include "core/backend/shm/communicator.h"

#include "test/core/backend/shm/arenas.h"

#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora::shm {
namespace {

TEST(Communicator, OfAllRanksSitsAtTheHeadOfTheArena) {
  const auto arenas = make_arenas(2);
  const Communicator communicator(arenas[1], 1, 2);
  EXPECT_EQ(&communicator.own_block(), &arenas[1]->block(1));
  EXPECT_EQ(communicator.rank_at(0), 0);
}

TEST(Communicator, OfSomeRanksCallsThemByTheirPlaces) {
  const auto arenas = make_arenas(3);
  const int members[] = {0, 2};
  const auto one = arenas[0]->take_block();
  const auto other = arenas[2]->take_block();
  const std::uint64_t offsets[] = {arenas[0]->offset_of(*one), arenas[2]->offset_of(*other)};
  const Communicator communicator(arenas[2], 1, members, offsets);
  EXPECT_EQ(communicator.size(), 2);
  EXPECT_EQ(communicator.rank_at(communicator.place()), 2);
  EXPECT_NE(&communicator.own_block(), &arenas[2]->block(2));
}

TEST(Communicator, RefusesPlacesThatCannotBeThere) {
  const auto arenas = make_arenas(1);
  const int members[] = {0};
  const std::uint64_t beyond[] = {arenas[0]->size()};
  const std::uint64_t crooked[] = {arenas[0]->offset_of(*arenas[0]->take_block()) + 8};
  EXPECT_THROW(Communicator(arenas[0], 0, members, beyond), Error);
  EXPECT_THROW(Communicator(arenas[0], 0, members, crooked), Error);
}

}  // namespace
}  // namespace hora::shm
