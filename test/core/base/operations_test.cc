// SPDX-License-Identifier: Apache-2.0
#include "core/base/operations.h"

#include <gtest/gtest.h>

#include <set>

namespace hora {
namespace {

/// Calls `check` with each operation and its row.
template <typename Check>
void for_each_operation(Check check) {
  for (int i = 0; i < kOperations; ++i) {
    const auto operation = static_cast<Operation>(i);
    SCOPED_TRACE(name(operation));
    check(operation, traits(operation));
  }
}

TEST(Operations, HaveNamesOfTheirOwnAsInMpi) {
  EXPECT_EQ(name(Operation::allgather), "allgather");
  EXPECT_EQ(name(Operation::scan), "scan");
  std::set<std::string_view> names;
  for_each_operation([&](Operation operation, const OperationTraits&) { names.insert(name(operation)); });
  EXPECT_EQ(names.size(), static_cast<std::size_t>(kOperations));
}

TEST(Operations, HaveRowsThatAgreeWithThemselves) {
  for_each_operation([](Operation operation, const OperationTraits& row) {
    EXPECT_TRUE(row.has_tensor || !(row.reduces || row.has_root || row.by_rows || row.fuses));
    EXPECT_TRUE(row.by_rows || !row.sizes_output) << "only numbers of rows may differ between ranks";
    EXPECT_TRUE(row.reduces || !row.packs) << "only sums are made of narrower elements";
    EXPECT_TRUE(row.by_rows || row.from_joined != FromJoined::no_rows);
    EXPECT_TRUE(!row.has_root || row.from_joined == FromJoined::refused) << "the root may have joined";
    EXPECT_EQ(concerns_members(operation), !row.has_tensor && operation != Operation::barrier);
  });
}

TEST(Operations, HaveAnOutputOfKnownSizeIfRanksBringAsMany) {
  EXPECT_TRUE(sizes_its_output(Operation::alltoall));
  EXPECT_FALSE(sizes_its_output(Operation::reducescatter));
}

}  // namespace
}  // namespace hora
