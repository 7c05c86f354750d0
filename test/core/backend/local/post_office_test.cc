// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/post_office.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(PostOffice, OnlyTheFirstLossCounts) {
  PostOffice office(3);
  office.lose(1, {Code::aborted, "first"});
  office.lose(2, {Code::aborted, "second"});
  EXPECT_EQ(office.take(0, TimePoint::max())->loss.message, "first");
  EXPECT_EQ(office.take(0, TimePoint::min()), std::nullopt);
}

}  // namespace
}  // namespace hora
