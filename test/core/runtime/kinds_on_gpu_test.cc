// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/kinds_on_gpu.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(KindsOnGpu, AreOfAGroupAnOperationADtypeAndAWire) {
  KindsOnGpu kinds;
  Entry sum;
  sum.op = ReduceOp::sum;
  EXPECT_FALSE(kinds.has(sum, 0));
  kinds.add(sum, 0);
  EXPECT_TRUE(kinds.has(sum, 0));
  EXPECT_FALSE(kinds.has(sum, 1));
  const auto knows = [&](const auto& change) {
    Entry entry = sum;
    change(entry);
    return kinds.has(entry, 0);
  };
  EXPECT_TRUE(knows([](Entry& entry) { entry.op = ReduceOp::average; }));
  EXPECT_TRUE(knows([](Entry& entry) { entry.name = "another"; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.op = ReduceOp::max; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.dtype = DType::float16; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.wire = DType::float16; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.operation = Operation::broadcast; }));
}

}  // namespace
}  // namespace hora
