// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/memory_pool.h"

#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

#include <optional>

namespace hora::cuda {
namespace {

class MemoryPoolTest : public testing::Test {
 protected:
  FakeDriver fake;
  const CudaDriver driver = fake.table();
  const int gpus = count_gpus(driver);
  const std::shared_ptr<const PrimaryContext> context = std::make_shared<const PrimaryContext>(driver, 0);
  const CurrentContext current{*context};
  std::optional<MemoryPool> pool{std::in_place, context};
};

TEST_F(MemoryPoolTest, GivesMemoryThatOutlivesIt) {
  const CUstream stream = fake.make_stream(0);
  CUdeviceptr data = 0;
  ASSERT_EQ(pool->allocate(&data, 64, stream), CUDA_SUCCESS);
  pool.reset();
  EXPECT_EQ(driver.memset_d8_async(data, 1, 64, stream), CUDA_SUCCESS);
  EXPECT_EQ(driver.mem_free_async(data, stream), CUDA_SUCCESS);
  fake.finish(0);
  EXPECT_EQ(fake.usage(0).blocks, 0U);
}

/// The fake driver knows no other value of this attribute.
TEST_F(MemoryPoolTest, LetsNoStreamWaitWhenItIsToldSo) {
  EXPECT_EQ(fake.calls("cuMemPoolSetAttribute"), 0);
  EXPECT_TRUE(thrown([&] { pool->let_no_stream_wait(); }).ok());
  EXPECT_EQ(fake.calls("cuMemPoolSetAttribute"), 1);
}

}  // namespace
}  // namespace hora::cuda
