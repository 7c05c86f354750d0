// SPDX-License-Identifier: Apache-2.0
// The shapes and shares of operations. Their values between ranks are the matter of runtime_test.cc.
#include "core/runtime/lane_operations.h"

#include "core/backend/local/local_group.h"
#include "core/runtime/host_completion.h"
#include "test/support/threads.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

/// A rank of two that carries out an operation on a tensor of 3 rows of 2 numbers, each the rank's number
/// plus 1.
struct RankThatOperates {
  RankThatOperates(local::LocalGroup& group, int number) : rank(number), world(group.join(number)) {}

  /// Returns the result; its shape is that of the output.
  Result run(Operation operation, std::vector<std::int64_t> rows) {
    decision.request.operation = operation;
    decision.request.shape = {3, 2};
    decision.request.check_finite = operation == Operation::allreduce;
    decision.rows = std::move(rows);
    BatchItem item{&decision, {std::make_shared<Entry>()}, {{}, {3, 2}}};
    Entry& entry = *item.loan.entry;
    entry.input = input.data();
    entry.output = output.data();
    entry.allocate = [this](const auto&) { return output.data(); };
    RunningBatch batch;
    batch.items.push_back(std::move(item));
    operations.carry_out(batch);
    EXPECT_EQ(batch.flag != nullptr, decision.request.check_finite);
    return batch.items.front().result;
  }

  int rank;
  World world;
  TensorTable table;
  Recorder recorder{0};
  Tracer tracer;
  Finisher finisher{table, recorder, tracer, kWorld};
  HostCompletion completion{world.lane, finisher};
  Members members{kWorld, {0, 1}, rank};
  LaneOperations operations{world.lane, members, completion, 1 << 20};
  Decision decision;
  std::vector<float> input = std::vector<float>(6, static_cast<float>(rank + 1));
  std::vector<float> output = std::vector<float>(12);
};

/// An operation, its rows, and the shape and first number of the output on each rank.
struct WantedOutput {
  Operation operation;
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> first_dimension;
  std::vector<float> number;
};

TEST(LaneOperations, GiveEachRankItsShare) {
  const std::vector<WantedOutput> table{
      {Operation::allreduce, {}, {3, 3}, {3, 3}},     {Operation::broadcast, {}, {3, 3}, {1, 1}},
      {Operation::allgather, {3, 3}, {3, 3}, {1, 1}}, {Operation::alltoall, {1, 2, 3, 0}, {4, 2}, {1, 1}},
      {Operation::reducescatter, {}, {2, 1}, {3, 3}}, {Operation::gather, {3, 3}, {3, 0}, {1, 0}},
      {Operation::scatter, {1, 2}, {1, 2}, {1, 1}},   {Operation::reduce, {}, {3, 3}, {3, 0}},
      {Operation::scan, {}, {3, 3}, {1, 3}},          {Operation::barrier, {}, {3, 3}, {0, 0}}};
  for (const auto& wanted : table) {
    local::LocalGroup group(2);
    run_ranks(2, [&](int number) {
      const auto place = static_cast<std::size_t>(number);
      RankThatOperates rank(group, number);
      const Result result = rank.run(wanted.operation, wanted.rows);
      EXPECT_EQ(result.shape.front(), wanted.first_dimension[place]) << name(wanted.operation);
      EXPECT_EQ(rank.output.front(), wanted.number[place]) << name(wanted.operation);
    });
  }
}

TEST(LaneOperations, LeaveProcessSetsToOthers) {
  local::LocalGroup group(2);
  RankThatOperates rank(group, 0);
  EXPECT_EQ(thrown([&] { rank.run(Operation::add_process_set, {}); }).code, Code::internal);
}

}  // namespace
}  // namespace hora
