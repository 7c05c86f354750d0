// SPDX-License-Identifier: Apache-2.0
#include "frameworks/samples/pieces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace hora::samples {
namespace {

/// All places of these pieces, in order.
std::vector<std::int64_t> places_of(const std::vector<Piece>& pieces) {
  std::vector<std::int64_t> places;
  for (const auto& piece : pieces) {
    for (std::int64_t place = piece.first; place < piece.last; ++place) places.push_back(place);
  }
  return places;
}

TEST(Pieces, OfAllRanksAreTheStep) {
  for (const Piece step : {Piece{0, 1}, Piece{5, 37}, Piece{64, 128}, Piece{3, 100}}) {
    for (int ranks = 1; ranks < 9; ++ranks) {
      std::vector<Piece> all;
      std::vector<Piece> whole;
      std::vector<std::size_t> counts;
      for (int rank = 0; rank < ranks; ++rank) {
        const auto own = microbatches(step, 8, rank, ranks);
        all.insert(all.end(), own.begin(), own.end());
        counts.push_back(own.size());
        whole.push_back(share(step, rank, ranks));
      }
      EXPECT_EQ(all, microbatches(step, 8, 0, 1)) << "the same for any number of ranks";
      EXPECT_LE(*std::max_element(counts.begin(), counts.end()),
                *std::min_element(counts.begin(), counts.end()) + 1);
      EXPECT_EQ(places_of(all), places_of({step}));
      EXPECT_EQ(places_of(whole), places_of({step}));
    }
  }
}

}  // namespace
}  // namespace hora::samples
