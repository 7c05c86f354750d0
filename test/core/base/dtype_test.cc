// SPDX-License-Identifier: Apache-2.0
#include <hora/hora.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(DType, IsFoundByItsName) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_named(name(dtype)), dtype);
  }
  EXPECT_EQ(dtype_named("float128"), std::nullopt);
}

TEST(DType, HasTheSizeOfItsElements) {
  EXPECT_EQ(size_of(DType::boolean), 1u);
  EXPECT_EQ(size_of(DType::bfloat16), 2u);
  EXPECT_EQ(size_of(DType::float64), 8u);
}

TEST(DType, TellsFloatsFromIntegers) {
  EXPECT_TRUE(is_float(DType::float16));
  EXPECT_TRUE(is_float(DType::float64));
  EXPECT_FALSE(is_float(DType::int64));
  EXPECT_FALSE(is_float(DType::boolean));
}

TEST(Names, AreSpelledAsInMpi) {
  EXPECT_EQ(name(Operation::allgather), "allgather");
  EXPECT_EQ(name(ReduceOp::product), "product");
}

TEST(Operations, HaveAnOutputOfTheirOwnSizeIfRanksBringRows) {
  EXPECT_TRUE(sizes_its_output(Operation::alltoall));
  EXPECT_FALSE(sizes_its_output(Operation::reducescatter))
      << "all bring as much, and so all get a known share";
}

}  // namespace
}  // namespace hora
