// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/absences.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

Request join_request(bool divide_by_initial_size) {
  Request request;
  request.operation = Operation::join;
  request.divide_by_initial_size = divide_by_initial_size;
  return request;
}

RankSet members_of(unsigned bits) {
  RankSet set;
  for (int place = 0; place < 3; ++place) {
    if ((bits >> place & 1) != 0) set.add(RankSet(place));
  }
  return set;
}

TEST(Absences, ATensorIsCompleteIfAllOthersHaveJoinedAndAJoinIfAllHaveAsked) {
  constexpr unsigned kAll = 0b111;
  for (unsigned joined = 0; joined <= kAll; ++joined) {
    for (unsigned asked = 1; asked <= kAll; ++asked) {
      Absences absences(RankSet(0, 3));
      const RankSet missing = RankSet(0, 3).without(members_of(asked));
      if (joined != 0) absences.join(members_of(joined), join_request(true));
      EXPECT_EQ(absences.complete(missing, false), (asked | joined) == kAll);
      EXPECT_EQ(absences.complete(missing, true), asked == kAll);
      absences.end_join();
      EXPECT_EQ(absences.complete(missing, false), asked == kAll);
    }
  }
}

TEST(Absences, TheLastJoinCounts) {
  Absences absences(RankSet(0, 3));
  EXPECT_FALSE(absences.any_joined());
  EXPECT_TRUE(absences.divide_by_initial_size());
  absences.join(RankSet(2), join_request(true));
  absences.join(RankSet(0), join_request(false));
  EXPECT_TRUE(absences.any_joined());
  EXPECT_EQ(absences.last_joined(), 0);
  EXPECT_FALSE(absences.divide_by_initial_size());
}

TEST(Absences, NamesThoseThatHaveLeftWithoutAsking) {
  Absences absences(RankSet(0, 3));
  EXPECT_FALSE(absences.any_left());
  absences.leave(RankSet(1));
  EXPECT_TRUE(absences.any_left());
  EXPECT_TRUE(absences.any_left(RankSet(0, 2)));
  EXPECT_FALSE(absences.any_left(RankSet(0)));
  EXPECT_EQ(absences.left_of(RankSet(1, 3)), RankSet(1));
  EXPECT_TRUE(absences.left_of(RankSet(2)).empty());
  EXPECT_FALSE(absences.all_left());
  absences.leave(RankSet(0));
  absences.leave(RankSet(2));
  EXPECT_TRUE(absences.all_left());
}

}  // namespace
}  // namespace hora
