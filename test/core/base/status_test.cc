// SPDX-License-Identifier: Apache-2.0
#include <hora/status.h>

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Status, IsOkByDefault) {
  EXPECT_TRUE(Status{}.ok());
  EXPECT_FALSE((Status{Code::mismatch, "x"}).ok());
}

TEST(Error, CarriesItsStatus) {
  const Error error(Code::aborted, "rank 1 is gone");
  EXPECT_STREQ(error.what(), "rank 1 is gone");
  EXPECT_EQ(error.status(), (Status{Code::aborted, "rank 1 is gone"}));
}

TEST(Code, HasANameForLogs) {
  EXPECT_STREQ(name(Code::ok), "ok");
  EXPECT_STREQ(name(Code::invalid_argument), "invalid_argument");
}

}  // namespace
}  // namespace hora
