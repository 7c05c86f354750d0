// SPDX-License-Identifier: Apache-2.0
#include <hora/device.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Device, IsCalledAsPyTorchCallsIt) {
  EXPECT_EQ(name(Device{}), "cpu");
  EXPECT_EQ(name(Device{DeviceKind::cuda, 3}), "cuda:3");
}

}  // namespace
}  // namespace hora
