// SPDX-License-Identifier: Apache-2.0
#include "core/runtime/one_generation.h"

#include "core/backend/local/local_group.h"
#include "test/support/thrown.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(OneGeneration, IsTakenOnceWithTheSettingsThatConnectHasChanged) {
  const auto generations = make_one_generation({}, [](Config& settings, TimePoint) {
    settings.fusion_threshold = 17;
    return local::LocalGroup(1).join(0);
  });
  EXPECT_FALSE(generations->has_more());
  EXPECT_FALSE(generations->take_next());
  generations->await_next(Clock::now());
  const auto generation = generations->take_next();
  ASSERT_TRUE(generation);
  EXPECT_EQ(generation->config.fusion_threshold, 17U);
  EXPECT_EQ(generation->committed, 0U);
  EXPECT_EQ(generation->state_root, -1);
  EXPECT_EQ(thrown([&] { generations->await_next(Clock::now()); }).code, Code::invalid_argument);
}

}  // namespace
}  // namespace hora
