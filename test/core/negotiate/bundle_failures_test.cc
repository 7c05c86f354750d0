// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/bundle_failures.h"

#include "test/core/negotiate/tensor.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(BundleFailures, OnlyTensorsOfAFailedBundleFail) {
  Request inside = tensor("w");
  inside.bundle = "layer";
  Request elsewhere = tensor("w");
  elsewhere.bundle = "other";
  BundleFailures failures;
  EXPECT_TRUE(failures.empty());
  EXPECT_EQ(failures.decision_for(inside), std::nullopt);
  failures.add("", "of no bundle");
  EXPECT_TRUE(failures.empty());
  failures.add("layer", "the first");
  failures.add("layer", "the second");
  EXPECT_EQ(failures.decision_for(inside)->status,
            (Status{Code::mismatch, "'w': its group failed: the first"}));
  EXPECT_EQ(failures.decision_for(elsewhere), std::nullopt);
  EXPECT_EQ(failures.decision_for(tensor("w")), std::nullopt);
}

}  // namespace
}  // namespace hora
