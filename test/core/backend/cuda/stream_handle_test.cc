// SPDX-License-Identifier: Apache-2.0
#include "core/backend/cuda/stream_handle.h"

#include "test/support/fake_gpu/fake_driver.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora::cuda {
namespace {

TEST(StreamHandle, IsAStreamForAsLongAsItExists) {
  const FakeDriver fake;
  ASSERT_EQ(count_gpus(fake.table()), 1);
  {
    const StreamHandle stream(std::make_shared<const PrimaryContext>(fake.table(), 0));
    EXPECT_NE(stream.get(), nullptr);
    EXPECT_EQ(fake.usage(0).streams, 1);
  }
  EXPECT_EQ(fake.usage(0).streams, 0);
  EXPECT_EQ(fake.usage(0).retains, 0);
}

TEST(StreamHandle, SaysWhatFailed) {
  FakeDriver fake;
  ASSERT_EQ(count_gpus(fake.table()), 1);
  const auto context = std::make_shared<const PrimaryContext>(fake.table(), 0);
  fake.fail_call("cuStreamCreateWithPriority", 1, CUDA_ERROR_UNKNOWN);
  EXPECT_EQ(thrown([&] { const StreamHandle stream(context); }).message,
            "cuStreamCreateWithPriority (cuda:0) failed with CUDA_ERROR_UNKNOWN: unknown error");
}

}  // namespace
}  // namespace hora::cuda
