// SPDX-License-Identifier: Apache-2.0
#include "core/fuse/plan.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

Decision tensor(std::int64_t length, DType dtype = DType::float32,
                Operation operation = Operation::allreduce) {
  Decision decision;
  decision.request.operation = operation;
  decision.request.name = "t";
  decision.request.dtype = decision.request.wire = dtype;
  decision.request.shape = {length};
  return decision;
}

using Batches = std::vector<Batch>;

TEST(Plan, PutsTensorsOfOneKindTogetherUpToTheThreshold) {
  const std::vector<Decision> decisions{tensor(16), tensor(16), tensor(16), tensor(16)};
  EXPECT_EQ(plan(decisions, {1000, 0}), (Batches{{{0, 1, 2, 3}}}));
  EXPECT_EQ(plan(decisions, {128, 0}), (Batches{{{0, 1}}, {{2, 3}}}));
  EXPECT_EQ(plan(decisions, {1, 0}), (Batches{{{0}}, {{1}}, {{2}}, {{3}}}));
}

TEST(Plan, LooksAheadOverOtherKinds) {
  const std::vector<Decision> decisions{tensor(1), tensor(1, DType::int32), tensor(1),
                                        tensor(1, DType::int32)};
  EXPECT_EQ(plan(decisions, {1000, 0}), (Batches{{{0, 2}}, {{1, 3}}}));
}

TEST(Plan, KeepsOtherOperationsAlone) {
  const std::vector<Decision> decisions{tensor(1), tensor(1, DType::float32, Operation::allgather),
                                        tensor(1, DType::float32, Operation::allgather), tensor(1)};
  EXPECT_EQ(plan(decisions, {1000, 0}), (Batches{{{0, 3}}, {{1}}, {{2}}}));
}

TEST(Plan, PutsBroadcastsFromOneRootTogetherWhateverTheirDtype) {
  std::vector<Decision> decisions{tensor(1, DType::float32, Operation::broadcast), tensor(1),
                                  tensor(1, DType::int64, Operation::broadcast),
                                  tensor(1, DType::float32, Operation::broadcast)};
  decisions[3].request.root = 1;
  EXPECT_EQ(plan(decisions, {1000, 0}), (Batches{{{0, 2}}, {{1}}, {{3}}}));
}

TEST(Plan, KeepsReductionsFactorsAndWiresApart) {
  std::vector<Decision> decisions(4, tensor(1));
  decisions[1].request.op = ReduceOp::max;
  decisions[2].request.prescale = 2;
  decisions[3].request.wire = DType::float16;
  EXPECT_EQ(plan(decisions, {1000, 0}).size(), 4u);
}

TEST(Plan, KeepsDivisorsAndWhoHasJoinedApart) {
  std::vector<Decision> decisions(3, tensor(1));
  decisions[1].divisor = 2;
  decisions[2].joined = {1};
  EXPECT_EQ(plan(decisions, {1000, 0}).size(), 3u);
}

TEST(Plan, LeavesOutWhatFailedAndKeepsWhatNobodyContributedAlone) {
  std::vector<Decision> decisions(3, tensor(1));
  decisions[0].status = {Code::mismatch, "no"};
  decisions[1].contributed = false;
  EXPECT_EQ(plan(decisions, {1000, 0}), (Batches{{{1}}, {{2}}}));
}

TEST(Plan, ATensorOverTheThresholdTravelsAlone) {
  EXPECT_EQ(plan(std::vector<Decision>{tensor(1), tensor(1000), tensor(1)}, {128, 0}),
            (Batches{{{0}}, {{1}}, {{2}}}));
}

TEST(WireBytes, AreWholeCacheLinesInTheWireDtype) {
  Request request = tensor(17).request;
  EXPECT_EQ(wire_bytes(request), 128u);
  request.wire = DType::float16;
  EXPECT_EQ(wire_bytes(request), 64u);
  request = tensor(63).request;
  request.wire = DType::float8_e4m3fn;
  EXPECT_EQ(wire_bytes(request), 128u) << "64 elements, and 2 scales";
}

TEST(Plan, KeepsTensorsOnGpusApartAndLetsMoreOfThemTravelTogether) {
  std::vector<Decision> decisions{tensor(1), tensor(1), tensor(1), tensor(1)};
  for (const std::size_t i : {std::size_t{1}, std::size_t{3}}) decisions[i].request.device = DeviceKind::cuda;
  EXPECT_EQ(plan(decisions, {1, 1000}), (Batches{{{0}}, {{1, 3}}, {{2}}}));
}

TEST(FirstThresholds, AreThoseThatAreSetAndElseTheUsualOnes) {
  Config config;
  EXPECT_EQ(first_thresholds(config).host, std::size_t{4} << 20);
  EXPECT_EQ(first_thresholds(config).cuda, std::size_t{32} << 20);
  config.fusion_threshold = 1;
  config.gpu_fusion_threshold = 2;
  EXPECT_EQ(first_thresholds(config).host, 1u);
  EXPECT_EQ(first_thresholds(config).cuda, 2u);
}

}  // namespace
}  // namespace hora
