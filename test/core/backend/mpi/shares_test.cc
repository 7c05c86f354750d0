// SPDX-License-Identifier: Apache-2.0
#include "core/backend/mpi/shares.h"

#include <gtest/gtest.h>

namespace hora::mpi {
namespace {

TEST(Shares, CoverTheWholeOnceAndInOrder) {
  for (const std::size_t ranks : {1, 2, 3, 7}) {
    for (const std::size_t count : {0, 1, 5, 7, 1000}) {
      std::size_t next = 10;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const Share share = share_of({10, 10 + count}, rank, ranks);
        EXPECT_EQ(share.begin, next);
        EXPECT_LE(share.count(), (count + ranks - 1) / ranks);
        next = share.end;
      }
      EXPECT_EQ(next, 10 + count);
    }
  }
}

TEST(Shares, AreCutOutOfSegmentsWithoutEmptyParts) {
  std::byte in[100];
  std::byte out[100];
  const std::vector<Segment> segments{{in, out, 3}, {in + 20, out + 20, 0}, {in + 40, out + 40, 4}};
  const auto parts = cut(segments, {2, 5}, 2);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].input, in + 4);
  EXPECT_EQ(parts[0].output, out + 4);
  EXPECT_EQ(parts[0].count, 1u);
  EXPECT_EQ(parts[1].input, in + 40);
  EXPECT_EQ(parts[1].count, 2u);
  EXPECT_TRUE(cut(segments, {7, 7}, 2).empty());
}

}  // namespace
}  // namespace hora::mpi
