// SPDX-License-Identifier: Apache-2.0
#include "core/backend/local/post_office.h"

#include <gtest/gtest.h>

namespace hora::local {
namespace {

TEST(PostOffice, OnlyTheFirstLossCounts) {
  PostOffice office(3);
  office.lose(1, {Code::aborted, "first"});
  office.lose(2, {Code::aborted, "second"});
  EXPECT_EQ(std::get<PeerLost>(*office.take(0, TimePoint::max())).why.message, "first");
  EXPECT_EQ(office.take(0, TimePoint::min()), std::nullopt);
}

TEST(PostOffice, ARankThatFailsByALossDoesNotNameItselfToThoseWhoHaveNotHeardOfTheLossYet) {
  const auto office = std::make_shared<PostOffice>(3);
  const auto control = make_local_control(office, 0);
  control->on_loss([&](const Status& why) { control->fail(why); });  // rank 1 comes after rank 0
  office->lose(2, {Code::aborted, "rank 2 is gone"});
  EXPECT_EQ(std::get<PeerLost>(*office->take(1, TimePoint::max())).why.message, "rank 2 is gone");
  EXPECT_EQ(office->take(1, TimePoint::min()), std::nullopt);
  EXPECT_EQ(std::get<PeerLost>(*office->take(2, TimePoint::max())).why.message,
            "rank 0 failed: rank 2 is gone");
}

}  // namespace
}  // namespace hora::local
