// SPDX-License-Identifier: Apache-2.0
#include "core/join/exchange.h"

#include "core/backend/local/post_office.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(Exchange, ThrowsTheLossOfARank) {
  auto office = std::make_shared<local::PostOffice>(2);
  const auto control = local::make_local_control(office, 0);
  office->lose(1, {Code::aborted, "rank 1 is gone"});
  EXPECT_THROW(exchange(*control, {}, TimePoint::max()), Error);
}

TEST(Exchange, RefusesAnAnswerThatIsNotOfAllRanks) {
  auto office = std::make_shared<local::PostOffice>(2);
  const auto control = local::make_local_control(office, 1);
  office->put(1, {0, {std::byte{1}, std::byte{0}}, {}});
  EXPECT_THROW(exchange(*control, {}, TimePoint::max()), Error);
}

}  // namespace
}  // namespace hora
