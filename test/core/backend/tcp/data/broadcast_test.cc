// SPDX-License-Identifier: Apache-2.0
#include "core/backend/tcp/data/broadcast.h"

#include "test/support/meshes.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace hora::tcp {
namespace {

/// The most connections that a rank has after a broadcast.
int broadcast(int ranks, std::size_t bytes, int root) {
  const auto required = run_meshes(ranks, [=](int rank, Mesh& mesh) {
    std::vector<char> data(bytes, rank == root ? 'r' : 'x');
    broadcast_tree(mesh, data.data(), bytes, root);
    EXPECT_EQ(std::count(data.begin(), data.end(), 'r'), static_cast<std::ptrdiff_t>(bytes));
  });
  return *std::max_element(required.begin(), required.end());
}

TEST(BroadcastTree, ReachesAllFromAnyRootAtAnyLength) {
  for (const int ranks : {1, 2, 3, 8, 9, 16, 21}) {
    for (const std::size_t bytes : {0, 1, 65535, 65536, 1'000'003}) {
      for (const int root : {0, ranks / 2, ranks - 1}) {
        SCOPED_TRACE(testing::Message() << ranks << " ranks, " << bytes << " bytes, root " << root);
        broadcast(ranks, bytes, root);
      }
    }
  }
}

TEST(BroadcastTree, IsOneHopForFewATreeForManyAndAChainForMuch) {
  EXPECT_EQ(broadcast(8, 100, 3), 7);
  EXPECT_EQ(broadcast(32, 100, 3), 5);
  EXPECT_EQ(broadcast(32, 1 << 20, 3), 2);
}

}  // namespace
}  // namespace hora::tcp
