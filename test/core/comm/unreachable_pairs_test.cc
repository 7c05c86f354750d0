// SPDX-License-Identifier: Apache-2.0
#include "core/comm/unreachable_pairs.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

UnreachablePair unreachable_pair(int from, int to) {
  return {
      {from, 10, "b", "", {}}, {to, 11, "a", "", {}}, {"10.1.0.1:4711 refused", "172.17.0.1:4711 timed out"}};
}

TEST(Gaps, NameWhoCannotReachWhomAndHowAndWhatHelps) {
  const Status status = describe_unreachable(std::vector{unreachable_pair(3, 0), unreachable_pair(3, 1)});
  EXPECT_EQ(status.code, Code::unavailable);
  EXPECT_TRUE(status.message.starts_with(
      "ranks cannot reach each other over the network:\n"
      "  rank 3 on b -> rank 0 on a: 10.1.0.1:4711 refused, 172.17.0.1:4711 timed out\n"
      "  rank 3 on b -> rank 1 on a: "))
      << status.message;
  EXPECT_NE(status.message.find("HORA_NETWORK"), std::string::npos);
}

TEST(Gaps, OfSeveralRanksBecomeOneMatrix) {
  const Status first = describe_unreachable(std::vector{unreachable_pair(3, 0)});
  const Status second = describe_unreachable(std::vector{unreachable_pair(2, 0)});
  EXPECT_TRUE(names_unreachable(first));
  EXPECT_FALSE(names_unreachable({Code::unavailable, "no way"}));
  const Status both = merge_unreachable(first, second);
  EXPECT_EQ(both, describe_unreachable(std::vector{unreachable_pair(3, 0), unreachable_pair(2, 0)}));
  EXPECT_EQ(merge_unreachable(both, second), both);
}

TEST(Gaps, BeyondALimitAreNotListed) {
  std::vector<UnreachablePair> unreachable_pairs;
  for (int from = 1; from < 64; ++from) unreachable_pairs.push_back(unreachable_pair(from, 0));
  const Status many = describe_unreachable(unreachable_pairs);
  EXPECT_LT(std::count(many.message.begin(), many.message.end(), '\n'), 30);
  EXPECT_NE(many.message.find("\n  and more pairs\n"), std::string::npos);
  const Status more = merge_unreachable(many, describe_unreachable(std::vector{unreachable_pair(70, 0)}));
  EXPECT_EQ(more, many) << "one line says that there are more";
}

}  // namespace
}  // namespace hora
