// SPDX-License-Identifier: Apache-2.0
#include "core/comm/rank_set.h"

#include "core/comm/control.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace hora {
namespace {

RankSet set_of(const std::set<int>& ranks) {
  const std::vector<int> list(ranks.begin(), ranks.end());
  return RankSet(list);
}

std::vector<int> list_of(const std::set<int>& ranks) { return {ranks.begin(), ranks.end()}; }

TEST(RankSet, KeepsNeighboursAsOneRun) {
  RankSet ranks(3);
  ranks.add(RankSet(5));
  EXPECT_EQ(ranks.runs().size(), 2u);
  ranks.add(RankSet(4));
  EXPECT_EQ(ranks, RankSet(3, 6));
  EXPECT_EQ(ranks.size(), 3);
  EXPECT_EQ(ranks.front(), 3);
}

TEST(RankSet, ThousandsAreOneRun) {
  RankSet ranks(0, 5000);
  ranks.add(RankSet(5000, 10000));
  EXPECT_EQ(ranks.runs().size(), 1u);
  EXPECT_EQ(ranks.size(), 10000);
}

TEST(RankSet, DoesWithRunsWhatASetDoesWithRanks) {
  std::mt19937 random(1);
  for (int course = 0; course < 2000; ++course) {
    std::set<int> one;
    std::set<int> other;
    for (int i = 0; i < 8; ++i) {
      one.insert(static_cast<int>(random() % 16));
      other.insert(static_cast<int>(random() % 16));
    }
    std::set<int> rest;
    std::set<int> common;
    for (const int rank : one) (other.contains(rank) ? common : rest).insert(rank);
    std::set<int> both = one;
    both.insert(other.begin(), other.end());
    RankSet added;  // one by one, in any order
    std::vector<int> shuffled = list_of(both);
    std::shuffle(shuffled.begin(), shuffled.end(), random);
    for (const int rank : shuffled) added.add(RankSet(rank));
    EXPECT_EQ(added, set_of(both));
    EXPECT_EQ(added.size(), static_cast<int>(both.size()));
    const RankSet ranks = set_of(one);
    RankSet sum = ranks;
    sum.add(set_of(other));
    EXPECT_EQ(sum, set_of(both));
    EXPECT_EQ(sum.list(), list_of(both));
    EXPECT_EQ(sum.size(), static_cast<int>(both.size()));
    EXPECT_EQ(ranks.without(set_of(other)), set_of(rest));
    EXPECT_EQ(ranks.common(set_of(other)), set_of(common));
    EXPECT_EQ(ranks.intersects(set_of(other)), !common.empty());
    for (int rank = 0; rank < 16; ++rank) EXPECT_EQ(ranks.contains(rank), one.contains(rank));
    Writer out;
    write(out, ranks);
    const Bytes bytes = out.take();
    Reader in(bytes);
    EXPECT_EQ(read_rank_set(in, 16), ranks);
  }
}

TEST(ReadRankSet, RefusesRanksThatDoNotExistAndRunsThatAreOne) {
  const auto read = [](std::initializer_list<std::uint64_t> numbers) {
    Writer out;
    for (const auto number : numbers) out.u64(number);
    const Bytes bytes = out.take();
    Reader in(bytes);
    return read_rank_set(in, 4);
  };
  EXPECT_EQ(read({1, 0, 3}), RankSet(0, 4));
  EXPECT_EQ(read({0}), RankSet());
  EXPECT_THROW(read({1, 0, 4}), Error);
  EXPECT_THROW(read({1, 4, 0}), Error);
  EXPECT_THROW(read({2, 0, 0, 0, 0}), Error);
  EXPECT_THROW(read({2, 0, 3, 0, 0}), Error);
  EXPECT_THROW(read({1, ~std::uint64_t{0}, 0}), Error);
}

}  // namespace
}  // namespace hora
