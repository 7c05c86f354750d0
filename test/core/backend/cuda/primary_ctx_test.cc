// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/primary_ctx.h"

#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace hora::cuda {
namespace {

CUcontext current() {
  CUcontext context = nullptr;
  ::cuCtxGetCurrent(&context);
  return context;
}

CUstreamCaptureMode mode() {
  CUstreamCaptureMode found = CU_STREAM_CAPTURE_MODE_GLOBAL;
  ::cuThreadExchangeStreamCaptureMode(&found);
  CUstreamCaptureMode again = found;
  ::cuThreadExchangeStreamCaptureMode(&again);
  return found;
}

TEST(PrimaryContext, IsKeptForAsLongAsItExists) {
  const FakeDriver fake({FakeGpu{}, FakeGpu{}});
  ASSERT_EQ(count_gpus(fake.table()), 2);
  {
    const PrimaryContext context(fake.table(), 1);
    EXPECT_EQ(context.index(), 1);
    EXPECT_EQ(fake.usage(0).retains, 0);
    EXPECT_EQ(fake.usage(1).retains, 1);
  }
  EXPECT_EQ(fake.usage(1).retains, 0);
}

TEST(PrimaryContext, SaysWhichGpuCannotBeOpened) {
  FakeDriver fake;
  ASSERT_EQ(count_gpus(fake.table()), 1);
  fake.fail_call("cuDevicePrimaryCtxRetain", 1, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(thrown([&] { const PrimaryContext context(fake.table(), 0); }).message,
            "cuDevicePrimaryCtxRetain (cuda:0) failed with CUDA_ERROR_OUT_OF_MEMORY: out of memory");
  EXPECT_EQ(fake.usage(0).retains, 0);
}

TEST(CurrentContext, LeavesTheThreadAsItWas) {
  FakeDriver fake({FakeGpu{}, FakeGpu{}});
  ASSERT_EQ(count_gpus(fake.table()), 2);
  const PrimaryContext users(fake.table(), 0);
  const PrimaryContext ours(fake.table(), 1);
  const CurrentContext outer(users);
  {
    const CurrentContext inner(ours);
    EXPECT_EQ(current(), ours.handle());
    EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_RELAXED);
  }
  EXPECT_EQ(current(), users.handle());
  fake.fail_call("cuThreadExchangeStreamCaptureMode", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(thrown([&] { const CurrentContext inner(ours); }).code, Code::internal);
  EXPECT_EQ(current(), users.handle());
}

TEST(CurrentContext, GivesTheCaptureModeBack) {
  const FakeDriver fake;
  ASSERT_EQ(count_gpus(fake.table()), 1);
  const PrimaryContext context(fake.table(), 0);
  {
    const CurrentContext inner(context);
  }
  EXPECT_EQ(mode(), CU_STREAM_CAPTURE_MODE_GLOBAL);
}

}  // namespace
}  // namespace hora::cuda
