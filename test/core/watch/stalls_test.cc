// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stalls.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::seconds;

const std::vector<Member> kMembers{{0, 10, "a", {}}, {1, 11, "a", {}}, {2, 12, "b", {}}};

Ballot asks(const std::string& name) {
  Ballot ballot;
  ballot.requests.emplace_back();
  ballot.requests.back().name = name;
  return ballot;
}

TEST(Stalls, WarnsOfATensorThatWaitsTooLongAndNamesWhoIsMissing) {
  const TimePoint start{};
  Coordinator coordinator(3);
  Stalls stalls(seconds(60), kMembers);
  EXPECT_EQ(stalls.next(coordinator), TimePoint::max());
  coordinator.add(0, asks("grad"), start);
  coordinator.add(1, asks("grad"), start + seconds(1));
  EXPECT_EQ(stalls.next(coordinator), start + seconds(60));
  EXPECT_TRUE(stalls.check(coordinator, start + seconds(59)).empty());
  EXPECT_EQ(
      stalls.check(coordinator, start + seconds(61)),
      (std::vector<std::string>{
          "'grad' has been waiting for 61 s: ranks 0 and 1 asked for it, missing: rank 2 (pid 12 on b)"}));
  EXPECT_TRUE(stalls.check(coordinator, start + seconds(62)).empty()) << "once each time the patience passes";
  EXPECT_EQ(stalls.next(coordinator), start + seconds(121));
  EXPECT_EQ(stalls.check(coordinator, start + seconds(121)).size(), 1u);
}

TEST(Stalls, ZeroMeansNever) {
  Coordinator coordinator(2);
  Stalls stalls(seconds(0), kMembers);
  coordinator.add(0, asks("grad"), {});
  EXPECT_EQ(stalls.next(coordinator), TimePoint::max());
  EXPECT_TRUE(stalls.check(coordinator, TimePoint() + seconds(1000)).empty());
}

}  // namespace
}  // namespace hora
