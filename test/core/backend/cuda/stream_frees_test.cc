// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/stream_frees.h"

#include "core/backend/cuda/memory_pool.h"
#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/fake_gpu/waiting.h"

#include <gtest/gtest.h>

#include <optional>

namespace hora::cuda {
namespace {

class StreamFreesTest : public testing::Test {
 protected:
  CUdeviceptr allocate(CUstream on) {
    CUdeviceptr data = 0;
    EXPECT_EQ(pool.allocate(&data, 64, on), CUDA_SUCCESS);
    return data;
  }
  [[nodiscard]] std::size_t blocks() const { return fake.usage(0).blocks; }

  FakeDriver fake;
  const CudaDriver driver = fake.table();
  const int gpus = count_gpus(driver);
  const std::shared_ptr<const PrimaryContext> context = std::make_shared<const PrimaryContext>(driver, 0);
  const CurrentContext current{*context};
  const MemoryPool pool{context};
  std::optional<StreamFrees> frees{std::in_place, context};
  CUstream stream = fake.make_stream(0);
};

TEST_F(StreamFreesTest, FreesBehindWhatIsOnTheStream) {
  const CUdeviceptr data = allocate(stream);
  fake.finish(0);
  HeldStream gate(stream);
  frees->free(stream, data);
  EXPECT_EQ(blocks(), 1U);
  gate.open();
  fake.finish(0);
  EXPECT_EQ(blocks(), 0U);
}

TEST_F(StreamFreesTest, WaitsUntilACaptureIsOverAndDoesNotSpoilIt) {
  const CUdeviceptr data = allocate(stream);
  const CUdeviceptr other = allocate(stream);
  fake.capture(stream, true);
  frees->free(stream, data);
  fake.finish(0);
  EXPECT_EQ(blocks(), 2U);
  EXPECT_FALSE(fake.spoilt_capture());
  fake.capture(stream, false);
  frees->go_on(fake.make_stream(0));
  EXPECT_EQ(blocks(), 2U);
  frees->free(stream, other);
  fake.finish(0);
  EXPECT_EQ(blocks(), 0U);
}

TEST_F(StreamFreesTest, WaitsForTheGpuAtTheEndWhereAStreamIsGone) {
  CUstream gone = nullptr;
  ASSERT_EQ(driver.stream_create_with_priority(&gone, CU_STREAM_NON_BLOCKING, 0), CUDA_SUCCESS);
  const CUdeviceptr data = allocate(gone);
  driver.memset_d8_async(data, 1, 64, gone);
  driver.stream_destroy(gone);
  frees->free(gone, data);
  EXPECT_EQ(blocks(), 1U);
  frees.reset();
  EXPECT_EQ(blocks(), 0U);
}

TEST_F(StreamFreesTest, LeavesWhatItCannotWaitFor) {
  const CUdeviceptr data = allocate(stream);
  fake.capture(stream, true);
  frees->free(stream, data);
  frees.reset();
  EXPECT_EQ(blocks(), 1U);
}

}  // namespace
}  // namespace hora::cuda
