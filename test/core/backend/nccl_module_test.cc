// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl_module.h"

#include <gmock/gmock.h>

namespace hora {
namespace {

TEST(NcclModule, SpellsVersionsAsNcclDoes) { EXPECT_EQ(nccl_version(22809), "2.28.9"); }

TEST(NcclModule, ReducesFloatsWithFactorsAndIntegersWithout) {
  EXPECT_TRUE(nccl_reduces({DType::bfloat16, ReduceOp::sum, 0.5, 2.0, 3}));
  EXPECT_TRUE(nccl_reduces({DType::int64, ReduceOp::max, 1.0, 1.0, 1}));
  EXPECT_FALSE(nccl_reduces({DType::int64, ReduceOp::sum, 1.0, 1.0, 3}));
  EXPECT_FALSE(nccl_reduces({DType::int64, ReduceOp::bit_or, 1.0, 1.0, 1}));
  EXPECT_FALSE(nccl_reduces({DType::float32, ReduceOp::logical_and, 1.0, 1.0, 1}));
  EXPECT_FALSE(nccl_reduces({DType::int16, ReduceOp::sum, 1.0, 1.0, 1}));
}

TEST(LoadNccl, GivesItsFunctionsOrSaysHowToGetIt) {
  try {
    static_cast<void>(load_nccl());
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
    EXPECT_THAT(error.what(), testing::HasSubstr("nvidia-nccl-cu13"));
  }
}

}  // namespace
}  // namespace hora
