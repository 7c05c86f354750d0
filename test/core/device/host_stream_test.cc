// SPDX-License-Identifier: Apache-2.0
#include "core/device/host_stream.h"

#include <gtest/gtest.h>

#include <vector>

namespace hora {
namespace {

TEST(HostStream, CopiesZeroesAndCasts) {
  const auto stream = make_host_stream();
  const std::vector<float> from{1.5F, -2.0F, 0.25F};
  std::vector<float> to(3);
  stream->copy(to.data(), from.data(), 12);
  EXPECT_EQ(to, from);
  std::vector<double> wide(3);
  stream->cast(wide.data(), DType::float64, from.data(), DType::float32, 3);
  EXPECT_EQ(wide, (std::vector<double>{1.5, -2.0, 0.25}));
  stream->zero(to.data(), 12);
  EXPECT_EQ(to, std::vector<float>(3));
  stream->copy(nullptr, nullptr, 0);
}

}  // namespace
}  // namespace hora
