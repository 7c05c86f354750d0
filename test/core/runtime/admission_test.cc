// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/admission.h"

#include <gtest/gtest.h>

#include <cmath>

namespace hora {
namespace {

float memory[8];

Entry good() {
  Entry entry;
  entry.name = "w";
  entry.shape = {2, 4};
  entry.input = entry.output = memory;
  return entry;
}

std::string refusal(const Entry& entry) {
  try {
    static_cast<void>(admit(entry, 2));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::invalid_argument);
    return error.what();
  }
  return "";
}

TEST(Admit, TurnsAnEntryIntoARequest) {
  Entry entry = good();
  entry.wire = DType::float16;
  const Request request = admit(entry, 2);
  EXPECT_EQ(request.name, "w");
  EXPECT_EQ(request.wire, DType::float16);
  EXPECT_EQ(request.op, ReduceOp::average);
}

TEST(Admit, NarrowsOnlyWideFloats) {
  Entry entry = good();
  entry.wire = DType::bfloat16;
  entry.dtype = DType::int32;
  EXPECT_EQ(admit(entry, 2).wire, DType::int32);
  entry.dtype = DType::float16;
  EXPECT_EQ(admit(entry, 2).wire, DType::float16);
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
  entry.prescale = std::nan("");
  EXPECT_EQ(refusal(entry), "'w': prescale nan and postscale 1 must be finite");
  entry = good();
  entry.wire = DType::int8;
  EXPECT_EQ(refusal(entry), "'w': elements can travel as float16 or bfloat16, not as int8");
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
  EXPECT_TRUE(admit(entry, 2).absent);
  entry = good();
  entry.shape = {0};
  entry.input = entry.output = nullptr;
  EXPECT_EQ(refusal(entry), "");
}

}  // namespace
}  // namespace hora
