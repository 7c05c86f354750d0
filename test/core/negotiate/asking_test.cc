// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/asking.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

TEST(AddAsking, PutsThoseTogetherWhoAskForTheSame) {
  Request request;
  request.name = "a";
  std::vector<Asking> askings;
  add_asking(askings, RankSet(0), request);
  add_asking(askings, RankSet(1), 7);
  add_asking(askings, RankSet(2), request);
  add_asking(askings, RankSet(3), 7);
  ASSERT_EQ(askings.size(), 2u);
  EXPECT_EQ(askings[0].who.list(), (std::vector<int>{0, 2}));
  EXPECT_EQ(*askings[0].request, request);
  EXPECT_EQ(askings[1].who.list(), (std::vector<int>{1, 3}));
  EXPECT_EQ(askings[1].repeat, 7u);
}

}  // namespace
}  // namespace hora
