// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/blocks.h"

#include "test/support/meshes.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>

namespace hora::tcp {
namespace {

TEST(AllgatherInRounds, GathersAnyLengthsFromAnyNumberOfRanksByFewConnections) {
  for (const int ranks : {1, 2, 3, 5, 8, 13}) {
    std::vector<std::size_t> bytes;
    std::vector<unsigned char> expected;
    for (int rank = 0; rank < ranks; ++rank) {
      bytes.push_back(static_cast<std::size_t>(rank % 4) * 700'001);  // some bring nothing
      expected.insert(expected.end(), bytes.back(), static_cast<unsigned char>(rank + 1));
    }
    const auto required = run_meshes(ranks, [&](int rank, Mesh& mesh) {
      const std::vector<unsigned char> input(bytes[static_cast<std::size_t>(rank)],
                                             static_cast<unsigned char>(rank + 1));
      std::vector<unsigned char> output(expected.size());
      allgather_in_rounds(mesh, input.data(), output.data(), bytes);
      EXPECT_TRUE(output == expected);
    });
    for (const int count : required) EXPECT_LE(count, 2 * std::bit_width(static_cast<unsigned>(ranks - 1)));
  }
}

TEST(AllgatherInRounds, WithoutBytesNobodyLeavesBeforeAllHaveCome) {
  const std::vector<std::size_t> nothing(11);
  std::atomic<int> come = 0;
  run_meshes(11, [&](int /*rank*/, Mesh& mesh) {
    for (int round = 1; round <= 50; ++round) {
      come.fetch_add(1);
      allgather_in_rounds(mesh, nullptr, nullptr, nothing);
      ASSERT_GE(come.load(), round * 11);
    }
  });
}

TEST(AlltoallAtOnce, WhoHasNothingForEachOtherDoesNotTalk) {
  // Only the ranks 1 and 3 have something, in one direction.
  std::vector<std::size_t> bytes(16);
  bytes[1 * 4 + 3] = 3'000'000;
  const auto required = run_meshes(4, [&](int rank, Mesh& mesh) {
    const std::vector<char> input(3'000'000, 'x');
    std::vector<char> output(3'000'000);
    alltoall_at_once(mesh, input.data(), output.data(), bytes);
    EXPECT_EQ(output == input, rank == 3);
  });
  EXPECT_EQ(required, (std::vector<int>{0, 1, 0, 1}));
}

}  // namespace
}  // namespace hora::tcp
