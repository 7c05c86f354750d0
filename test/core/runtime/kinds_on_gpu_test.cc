// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/kinds_on_gpu.h"

#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

bool has(const KindsOnGpu& kinds, const Entry& entry, int group) {
  return thrown([&] { kinds.check_has(entry, group); }).ok();
}

TEST(KindsOnGpu, AreOfAGroupAndOfAllThatDecidesTheWay) {
  KindsOnGpu kinds;
  Entry sum;
  sum.op = ReduceOp::sum;
  EXPECT_FALSE(has(kinds, sum, 0));
  kinds.add(sum, 0);
  EXPECT_TRUE(has(kinds, sum, 0));
  EXPECT_FALSE(has(kinds, sum, 1));
  const auto knows = [&](const auto& change) {
    Entry entry = sum;
    change(entry);
    return has(kinds, entry, 0);
  };
  EXPECT_TRUE(knows([](Entry& entry) { entry.name = "another"; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.op = ReduceOp::average; }))
      << "of integers, NCCL makes the sum and the host the average";
  EXPECT_FALSE(knows([](Entry& entry) { entry.op = ReduceOp::max; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.prescale = 0.5; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.postscale = 0.5; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.dtype = DType::float16; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.wire = DType::float16; }));
  EXPECT_FALSE(knows([](Entry& entry) { entry.operation = Operation::broadcast; }));
  EXPECT_TRUE(knows([](Entry& entry) { entry.root = 1; })) << "an allreduce has none";
  sum.operation = Operation::reduce;
  kinds.add(sum, 0);
  EXPECT_TRUE(knows([](Entry& /*entry*/) {}));
  EXPECT_FALSE(knows([](Entry& entry) { entry.root = 1; })) << "other ranks send to each other";
}

TEST(KindsOnGpu, DoNotCountWhileTheWayIsGoingToChange) {
  KindsOnGpu kinds;
  kinds.suspend(0);
  kinds.add(Entry{}, 0);
  kinds.add(Entry{}, 1);
  EXPECT_FALSE(has(kinds, Entry{}, 0));
  EXPECT_TRUE(has(kinds, Entry{}, 1));
  kinds.resume(0);
  EXPECT_FALSE(has(kinds, Entry{}, 0));
  kinds.add(Entry{}, 0);
  EXPECT_TRUE(has(kinds, Entry{}, 0));
}

}  // namespace
}  // namespace hora
