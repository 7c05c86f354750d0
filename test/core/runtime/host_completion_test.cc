// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/host_completion.h"

#include "core/backend/local/local_group.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

class HostCompletionTest : public testing::Test {
 protected:
  local::LocalGroup group_{1};
  World world_ = group_.join(0);
  TensorTable table_;
  Recorder recorder_{10};
  Tracer tracer_;
  Finisher finisher_{table_, recorder_, tracer_, kWorld};
  HostCompletion completion_{world_.lane, finisher_};
};

TEST_F(HostCompletionTest, IsThereWhenTheCollectiveReturns) {
  Entry entry;
  entry.name = "x";
  Request request;
  request.name = "x";
  const Handle handle = table_.put(std::move(entry), {kWorld, request}, {});
  completion_.make_room();
  RunningBatch batch;
  batch.items.push_back({nullptr, *table_.take(kWorld, "x"), {}});
  completion_.begin(batch.items, false);
  EXPECT_FALSE(handle.poll());
  completion_.complete(std::move(batch), {});
  EXPECT_TRUE(handle.poll());
}

TEST_F(HostCompletionTest, HasStandInsThatChangeNothing) {
  Request request;
  request.shape = {3};
  for (const auto& [op, neutral] :
       std::map<ReduceOp, float>{{ReduceOp::sum, 0.0F}, {ReduceOp::product, 1.0F}}) {
    request.op = op;
    const auto memory = completion_.stand_in(request);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(reinterpret_cast<const float*>(memory.get())[i], neutral);
  }
}

TEST_F(HostCompletionTest, ComputesWhereTensorsLie) {
  float x = 1;
  const Segment segment{&x, &x, 1};
  int calls = 0;
  completion_.on_host({&segment, 1}, sizeof(float), [&](Collective& host, std::span<const Segment> segments) {
    EXPECT_EQ(&host, world_.lane.collective.get());
    ASSERT_EQ(segments.size(), 1U);
    EXPECT_EQ(segments.front().input, &x);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace hora
