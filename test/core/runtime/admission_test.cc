// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/admission.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hora {
namespace {

float memory[8];
const ProcessSets sets(2);

Entry good() {
  Entry entry;
  entry.name = "w";
  entry.shape = {2, 4};
  entry.input = entry.output = memory;
  return entry;
}

std::string refusal(const Entry& entry) {
  try {
    static_cast<void>(admit(entry, 0, sets));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Admit, TurnsAnEntryIntoARequest) {
  Entry entry = good();
  entry.wire = DType::float16;
  const Request request = admit(entry, 0, sets).request;
  EXPECT_EQ(request.name, "w");
  EXPECT_EQ(request.wire, DType::float16);
  EXPECT_EQ(request.op, ReduceOp::average);
}

TEST(Admit, NarrowsOnlyWideFloats) {
  Entry entry = good();
  entry.wire = DType::bfloat16;
  entry.dtype = DType::int32;
  EXPECT_EQ(admit(entry, 0, sets).request.wire, DType::int32);
  entry.dtype = DType::float16;
  EXPECT_EQ(admit(entry, 0, sets).request.wire, DType::float16);
}

TEST(Admit, TakesBlockScaledFloatsForSumsAndAveragesOfFloatsOnly) {
  Entry entry = good();
  entry.wire = DType::float8_e5m2;
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float32, DType::float64}) {
    entry.dtype = dtype;
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      entry.op = op;
      const Request request = admit(entry, 0, sets).request;
      EXPECT_EQ(request.wire, DType::float8_e5m2);
      EXPECT_TRUE(travels_in_blocks(request));
    }
  }
  for (int number = 0; number < kReduceOps; ++number) {
    entry.op = static_cast<ReduceOp>(number);
    if (entry.op == ReduceOp::sum || entry.op == ReduceOp::average || is_bitwise(entry.op)) continue;
    EXPECT_EQ(refusal(entry), "'w': elements travel as float8_e5m2 for a sum or an average, not for " +
                                  std::string(name(entry.op)) + "; let them travel as bfloat16");
  }
  entry = good();
  entry.wire = DType::float8_e4m3fn;
  entry.dtype = DType::int32;
  EXPECT_EQ(refusal(entry),
            "'w': elements of int32 cannot travel as float8_e4m3fn, which is for floats of 16 to 64 bits; "
            "let them travel as they are");
  entry = good();
  entry.wire = DType::float8_e4m3fn;
  for (const Operation operation : {Operation::reducescatter, Operation::reduce}) {
    entry.operation = operation;
    EXPECT_TRUE(travels_in_blocks(admit(entry, 0, sets).request)) << name(operation);
  }
  entry.operation = Operation::scan;
  entry.op = ReduceOp::sum;
  EXPECT_EQ(refusal(entry),
            "'w': elements of scan cannot travel as float8_e4m3fn; let them travel as they are");
  entry = good();
  for (const DType wire : {DType::float8_e4m3fnuz, DType::float8_e5m2fnuz, DType::float8_e8m0fnu}) {
    entry.wire = wire;
    EXPECT_EQ(refusal(entry),
              "'w': elements can travel as float16, bfloat16, float8_e4m3fn or float8_e5m2, not as " +
                  std::string(name(wire)));
  }
  entry = good();
  entry.operation = Operation::broadcast;
  entry.dtype = DType::float8_e4m3fn;
  EXPECT_FALSE(travels_in_blocks(admit(entry, 0, sets).request)) << "it is moved as it is";
}

TEST(Admit, NamesTheTensorAndTheRemedy) {
  Entry entry = good();
  entry.name.clear();
  EXPECT_EQ(refusal(entry), "a tensor needs a name, the same on all ranks");
  entry = good();
  entry.shape = {-1};
  EXPECT_EQ(refusal(entry), "'w': no tensor can have the shape float32[-1]");
  entry = good();
  entry.input = nullptr;
  EXPECT_EQ(refusal(entry), "'w': its input is a null pointer");
  entry = good();
  entry.dtype = DType::boolean;
  EXPECT_EQ(refusal(entry), "'w': bool has no average; use sum (or), product (and), min or max");
  entry = good();
  entry.dtype = DType::float8_e4m3fn;
  EXPECT_EQ(refusal(entry),
            "'w': float8_e4m3fn is moved between ranks, and not reduced; convert the tensor to bfloat16");
  entry = good();
  entry.dtype = DType::complex64;
  entry.op = ReduceOp::max;
  EXPECT_EQ(refusal(entry), "'w': complex64 has sums and averages, and no max");
  entry = good();
  entry.prescale = std::nan("");
  EXPECT_EQ(refusal(entry), "'w': prescale nan and postscale 1 must be finite");
  entry = good();
  entry.wire = DType::int8;
  EXPECT_EQ(refusal(entry),
            "'w': elements can travel as float16, bfloat16, float8_e4m3fn or float8_e5m2, not as int8");
  entry = good();
  entry.operation = Operation::broadcast;
  entry.root = 2;
  EXPECT_EQ(refusal(entry), "'w': there is no root rank 2: ranks are 0 to 1");
  entry = good();
  entry.operation = Operation::allgather;
  entry.shape = {};
  EXPECT_EQ(refusal(entry),
            "'w': a scalar has no first dimension to gather along; make it a tensor of 1 element");
  entry = good();
  entry.name = std::string(5000, 'x');
  EXPECT_NE(refusal(entry).find("a name has at most 4096 bytes, not 5000"), std::string::npos);
}

TEST(Admit, AbsentAndEmptyTensorsNeedNoInput) {
  Entry entry = good();
  entry.input = nullptr;
  entry.absent = true;
  EXPECT_TRUE(admit(entry, 0, sets).request.absent);
  entry = good();
  entry.shape = {0};
  entry.input = entry.output = nullptr;
  EXPECT_EQ(refusal(entry), "");
}

TEST(Admit, ChecksTheOutputOfAnOperationThatSizesIt) {
  const std::string either =
      "'w': allgather needs either `allocate`, which makes the output, or `output` and `output_rows`";
  Entry entry = good();
  entry.operation = Operation::allgather;
  EXPECT_EQ(refusal(entry), either);
  float gathered[16];
  entry.output = gathered;
  entry.output_rows = 4;
  EXPECT_EQ(refusal(entry), "");
  entry.allocate = [](const auto&) -> void* { return memory; };
  EXPECT_EQ(refusal(entry), either);
  entry.allocate = nullptr;
  entry.output_rows = -1;
  EXPECT_EQ(refusal(entry), "'w': its output cannot have -1 rows");
  entry.output_rows = 4;
  entry.input = entry.output;
  EXPECT_EQ(refusal(entry), "'w': its input and its output overlap; they need memory apart");
  entry.output = nullptr;
  EXPECT_EQ(refusal(entry), "'w': its output is a null pointer");
  entry.shape = {0, 4};
  entry.input = nullptr;
  EXPECT_EQ(refusal(entry), "'w': its output is a null pointer") << "the others may bring rows";
}

TEST(Admit, ChecksSplitsAgainstRowsAndRanks) {
  Entry entry = good();
  entry.operation = Operation::alltoall;
  entry.allocate = [](const auto&) -> void* { return memory; };
  EXPECT_EQ(refusal(entry), "");
  entry.shape = {3, 2};
  EXPECT_EQ(refusal(entry),
            "'w': a first dimension of 3 cannot be split evenly between 2 ranks; give splits");
  entry.splits = {1, 1};
  EXPECT_EQ(refusal(entry), "") << "what is left over stays";
  entry.splits = {1, 1, 1};
  EXPECT_EQ(refusal(entry), "'w': splits has 3 numbers, but the process set has 2 ranks");
  entry.splits = {2, 2};
  EXPECT_EQ(refusal(entry),
            "'w': the splits [2, 2] do not fit a first dimension of 3: none may be negative, and their sum "
            "not more "
            "than that");
  entry.splits = {-1, 2};
  EXPECT_NE(refusal(entry), "");
}

TEST(Admit, ChecksReductionsOfReducescatterAndAdasum) {
  Entry entry = good();
  entry.operation = Operation::reducescatter;
  entry.op = ReduceOp::max;
  EXPECT_EQ(refusal(entry), "");
  entry.op = ReduceOp::bit_or;
  EXPECT_EQ(refusal(entry), "'w': bit_or takes integers and bool, not float32");
  entry.op = ReduceOp::logical_or;
  entry.postscale = 2;
  EXPECT_EQ(refusal(entry), "'w': logical_or has no factors; leave prescale and postscale at 1");
  entry.postscale = 1;
  entry.op = ReduceOp::adasum;
  EXPECT_EQ(refusal(entry), "'w': reducescatter does not know adasum; use allreduce");
  entry.op = ReduceOp::sum;
  entry.shape = {};
  EXPECT_NE(refusal(entry).find("a scalar has no first dimension"), std::string::npos);
  entry = good();
  entry.op = ReduceOp::adasum;
  entry.dtype = DType::int32;
  EXPECT_EQ(refusal(entry), "'w': adasum takes float16, bfloat16, float32 and float64, not int32");
  entry = good();
  entry.strides.assign(entry.shape.size() + 1, 1);
  EXPECT_NE(refusal(entry).find("strides has "), std::string::npos);
}

TEST(Admit, OnlyTheRootOfAScatterOrReduceNeedsItsSide) {
  Entry entry = good();
  entry.operation = Operation::reduce;
  entry.root = 1;
  entry.output = nullptr;
  EXPECT_EQ(refusal(entry), "");
  entry.root = 0;
  EXPECT_EQ(refusal(entry), "'w': its output is a null pointer");
  entry.op = ReduceOp::adasum;
  EXPECT_NE(refusal(entry), "");

  entry = good();
  entry.operation = Operation::scatter;
  EXPECT_EQ(refusal(entry).find("'w': scatter needs either `allocate`, which makes the output"), 0U);
  entry.accept = [](const auto&, const auto&) {};
  EXPECT_NE(refusal(entry), "") << "that is for GPUs";
  entry.device = {DeviceKind::cuda, 0};
  EXPECT_EQ(refusal(entry), "");
  entry.stream = reinterpret_cast<void*>(std::uintptr_t{2});  // cudaStreamPerThread
  EXPECT_EQ(
      refusal(entry),
      "'w': scatter cannot be submitted with cudaStreamPerThread: its output is made on another thread, "
      "where that is another stream; use one that cudaStreamCreate has made");
  entry.stream = nullptr;
  entry.device = {};
  entry.allocate = [](const auto&) -> void* { return memory; };
  entry.splits = {9, 9};
  EXPECT_NE(refusal(entry).find("do not fit a first dimension"), std::string::npos);
  entry.root = 1;
  entry.input = nullptr;
  EXPECT_EQ(refusal(entry), "") << "splits and rows are the root's business";
  EXPECT_EQ(admit(entry, 0, sets).request.shape.front(), 0);
  entry.root = 2;
  EXPECT_EQ(refusal(entry), "'w': there is no root rank 2: ranks are 0 to 1");
}

TEST(Admit, AScanHasNoAverage) {
  Entry entry = good();
  entry.operation = Operation::scan;
  EXPECT_EQ(refusal(entry), "'w': scan does not know average; use another reduction");
  entry.op = ReduceOp::min;
  EXPECT_EQ(refusal(entry), "");
}

TEST(Admit, KnowsProcessSetsAndTheirRanks) {
  ProcessSets more(4);
  EXPECT_EQ(more.add({{1, 3}, ""}), 1);
  Entry entry = good();
  entry.process_set = 1;
  EXPECT_EQ(admit(entry, 3, more).group, 1);
  const auto text = [&](const Entry& e) {
    try {
      static_cast<void>(admit(e, 0, more));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(text(entry),
            "'w': rank 0 is not a member of the provided process set 1, which has ranks 1 and 3");
  entry.process_set = 2;
  EXPECT_EQ(text(entry), "'w': process set 2 does not exist, or has not been registered");
  Entry add;
  add.operation = Operation::add_process_set;
  add.ranks = {3, 1};
  EXPECT_EQ(text(add), "the process set [1, 3]: there is one of these ranks already, number 1");
  add.ranks = {4};
  EXPECT_EQ(text(add), "the process set [4]: ranks are 0 to 3");
  add.ranks = {2, 2};
  EXPECT_EQ(text(add), "the process set [2, 2]: a rank can be in it only once");
  add.ranks = {};
  EXPECT_EQ(text(add), "the process set []: it needs one rank at least");
  add.ranks = {1, 3};
  add.set_name = "x";
  EXPECT_EQ(
      text(add),
      "the process set [1, 3]: rank 0 is not in it; only the ranks of a process set that has a name add "
      "it");
  const Request request = admit(add, 3, more).request;
  EXPECT_EQ(request.name, "hora.add_process_set.x[1,3]");
  EXPECT_EQ(request.ranks, (std::vector<int>{1, 3}));
  EXPECT_EQ(request.set_name, "x");
  add.set_name = std::string(1025, 'x');
  EXPECT_EQ(text(add), "the process set [1, 3]: its name has at most 1024 bytes, not 1025");
  Entry remove;
  remove.operation = Operation::remove_process_set;
  EXPECT_EQ(text(remove), "the process set of all ranks cannot be removed");
}

}  // namespace
}  // namespace hora
