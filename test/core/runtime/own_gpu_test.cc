// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/own_gpu.h"

#include <hora/hora.h>

#include <gmock/gmock.h>

namespace hora {
namespace {

TEST(OwnGpu, IsNoneUntilItIsAskedFor) { EXPECT_EQ(OwnGpu(0).opened(), nullptr); }

TEST(OwnGpu, SaysWhyThereIsNone) {
  if (gpus() > 0) GTEST_SKIP() << "there is one";
  OwnGpu gpu(0);
  try {
    gpu.open();
    FAIL() << "there is none";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::unavailable);
  }
  EXPECT_EQ(gpu.opened(), nullptr);
}

}  // namespace
}  // namespace hora
