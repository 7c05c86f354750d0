// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/kernel_module.h"

#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace hora::cuda {
namespace {

using testing::HasSubstr;

constexpr std::array kFloatDTypes{DType::float16, DType::bfloat16, DType::float32, DType::float64};

TEST(KernelModule, HasAKernelForEveryPairOfFloatsAndForBlocksOfThem) {
  const FakeDriver fake;
  ASSERT_EQ(count_gpus(fake.table()), 1);
  {
    const KernelModule kernels(std::make_shared<const PrimaryContext>(fake.table(), 0));
    std::set<CUfunction> found;
    for (const bool large : {false, true}) {
      found.insert(kernels.copy(large));
      for (const DType to : kFloatDTypes) {
        for (const DType from : kFloatDTypes) found.insert(kernels.move(to, from, large));
        if (to != DType::float64) found.insert(kernels.sum(to, large));
        for (const DType format : {DType::float8_e4m3fn, DType::float8_e5m2}) {
          found.insert(kernels.quantize(format, to, large));
          found.insert(kernels.dequantize(to, format, large));
          found.insert(kernels.sum_blocks(format, large));
        }
      }
    }
    EXPECT_EQ(found.size(), 76U);
    EXPECT_FALSE(found.contains(nullptr));
    EXPECT_EQ(kernels.multiprocessors(), 4U);
    EXPECT_EQ(fake.usage(0).modules, 1);
  }
  EXPECT_EQ(fake.usage(0).modules, 0);
}

TEST(KernelModule, UsesLargeTablesOnlyWhereTheDriverTakesThem) {
  FakeDriver fake;
  ASSERT_EQ(count_gpus(fake.table()), 1);
  const auto context = std::make_shared<const PrimaryContext>(fake.table(), 0);
  EXPECT_TRUE(KernelModule(context).has_large());
  fake.set_version(12000);
  EXPECT_FALSE(KernelModule(context).has_large());
}

TEST(KernelModule, SaysThatItWasNotBuiltForAGpu) {
  FakeDriver fake;
  ASSERT_EQ(count_gpus(fake.table()), 1);
  const auto context = std::make_shared<const PrimaryContext>(fake.table(), 0);
  fake.fail_call("cuModuleLoadData", 1, CUDA_ERROR_NO_BINARY_FOR_GPU);
  const Status status = thrown([&] { const KernelModule kernels(context); });
  EXPECT_EQ(status.code, Code::unavailable);
  EXPECT_THAT(status.message, HasSubstr("not built for cuda:0, which has compute capability 9.0: "
                                        "CUDA_ERROR_NO_BINARY_FOR_GPU"));
  EXPECT_THAT(status.message, HasSubstr("must be at least 7.5"));
}

TEST(KernelModule, LeavesNothingBehindWhenAKernelIsMissing) {
  FakeDriver fake;
  ASSERT_EQ(count_gpus(fake.table()), 1);
  fake.fail_call("cuModuleGetFunction", 5, CUDA_ERROR_NOT_FOUND);
  const Status status =
      thrown([&] { const KernelModule kernels(std::make_shared<const PrimaryContext>(fake.table(), 0)); });
  EXPECT_THAT(status.message, HasSubstr("cuModuleGetFunction (hora_move_"));
  EXPECT_EQ(fake.usage(0), FakeUsage{});
}

}  // namespace
}  // namespace hora::cuda
