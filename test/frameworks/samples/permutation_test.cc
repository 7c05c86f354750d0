// SPDX-License-Identifier: Apache-2.0
#include "frameworks/samples/permutation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace hora::samples {
namespace {

std::vector<std::size_t> ascending(std::int64_t size) {
  std::vector<std::size_t> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST(Permutation, HasEachNumberOnce) {
  std::vector<std::int64_t> sizes(79);
  std::iota(sizes.begin(), sizes.end(), 1);
  sizes.insert(sizes.end(), {1000, 65536});
  for (const std::int64_t size : sizes) {
    const auto number = static_cast<std::uint64_t>(size);
    auto numbers = Permutation(number, 3, number % 3).numbers({0, size});
    std::sort(numbers.begin(), numbers.end());
    EXPECT_EQ(numbers, ascending(size));
  }
}

TEST(Permutation, GivesAnyPartOfIt) {
  const Permutation order(1000, 3, 1);
  const auto whole = order.numbers({0, 1000});
  EXPECT_EQ(order.numbers({333, 501}), std::vector(whole.begin() + 333, whole.begin() + 501));
}

TEST(Permutation, IsAnotherForEachSeedAndEpoch) {
  std::vector<std::vector<std::size_t>> orders{ascending(1000)};
  for (const std::uint64_t seed : {0, 1}) {
    for (const std::uint64_t epoch : {0, 1}) {
      const auto order = Permutation(1000, seed, epoch).numbers({0, 1000});
      for (const auto& other : orders) {
        int same = 0;
        for (std::size_t place = 0; place < order.size(); ++place) same += order[place] == other[place];
        EXPECT_LT(same, 10) << "1 is usual";
      }
      orders.push_back(order);
    }
  }
}

TEST(Permutation, BeginsWithEachNumberAboutEquallyOften) {
  std::map<std::size_t, int> first;
  std::map<std::pair<std::size_t, std::size_t>, int> neighbours;
  for (std::uint64_t epoch = 0; epoch < 3600; ++epoch) {
    const auto order = Permutation(6, 5, epoch).numbers({0, 6});
    ++first[order[0]];
    ++neighbours[{order[2], order[3]}];
  }
  EXPECT_EQ(first.size(), 6u);
  for (const auto& [number, times] : first) EXPECT_NEAR(times, 600, 150) << number;
  EXPECT_EQ(neighbours.size(), 30u);
  for (const auto& [pair, times] : neighbours) EXPECT_NEAR(times, 120, 60) << pair.first << pair.second;
}

TEST(MixedSeed, DependsOnEachNumberAndItsPlace) {
  using Numbers = std::vector<std::uint64_t>;
  std::vector<std::uint64_t> seeds;
  for (const auto& numbers : {Numbers{0}, Numbers{1}, Numbers{0, 0}, Numbers{0, 1}, Numbers{1, 0}})
    seeds.push_back(mixed_seed(numbers));
  std::sort(seeds.begin(), seeds.end());
  EXPECT_EQ(std::adjacent_find(seeds.begin(), seeds.end()), seeds.end());
}

}  // namespace
}  // namespace hora::samples
