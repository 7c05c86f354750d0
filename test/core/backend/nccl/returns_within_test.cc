// SPDX-License-Identifier: Apache-2.0
#include "core/backend/nccl/returns_within.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>

namespace hora::nccl {
namespace {

using std::chrono::milliseconds;

TEST(ReturnsWithin, SaysWhatHasReturned) {
  bool called = false;
  EXPECT_TRUE(returns_within(std::chrono::hours(1), [&] { called = true; }));
  EXPECT_TRUE(called);
}

TEST(ReturnsWithin, LeavesBehindWhatDoesNotReturn) {
  auto gate = std::make_shared<std::promise<void>>();
  auto ended = std::make_shared<std::promise<void>>();
  EXPECT_FALSE(returns_within(milliseconds(5), [gate, ended] {
    gate->get_future().wait();
    ended->set_value();
  }));
  gate->set_value();
  ended->get_future().wait();
}

}  // namespace
}  // namespace hora::nccl
