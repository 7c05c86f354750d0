// SPDX-License-Identifier: Apache-2.0
#include "core/watch/stalls.h"

#include "core/backend/local/post_office.h"

#include <gtest/gtest.h>

namespace hora {
namespace {

using std::chrono::seconds;

const std::vector<Member> kMembers{{0, 10, "a", {}}, {1, 11, "a", {}}, {2, 12, "b", {}}};

std::vector<Request> tensor(const std::string& name) {
  Request request;
  request.name = name;
  return {request};
}

TEST(Stalls, WarnsOfATensorThatWaitsTooLongAndNamesWhoIsMissing) {
  const TimePoint start{};
  const auto control = make_local_control(std::make_shared<PostOffice>(3), 0);
  Negotiator negotiator(*control);
  Stalls stalls(seconds(60), kMembers);
  EXPECT_EQ(stalls.next(negotiator), TimePoint::max());
  negotiator.ask(kWorld, tensor("grad"), start);
  EXPECT_EQ(stalls.next(negotiator), start + seconds(60));
  EXPECT_TRUE(stalls.check(negotiator, start + seconds(59)).empty());
  EXPECT_EQ(stalls.check(negotiator, start + seconds(61)),
            (std::vector<std::string>{"'grad' has been waiting for 61 s: rank 0 asked for it, missing: rank "
                                      "1 (pid 11 on a), rank 2 (pid 12 on b)"}));
  EXPECT_TRUE(stalls.check(negotiator, start + seconds(62)).empty()) << "once each time the patience passes";
  EXPECT_EQ(stalls.next(negotiator), start + seconds(121));
  EXPECT_EQ(stalls.check(negotiator, start + seconds(121)).size(), 1u);
}

TEST(Stalls, NamesTheProcessSet) {
  const auto control = make_local_control(std::make_shared<PostOffice>(3), 0);
  Negotiator negotiator(*control);
  negotiator.add_group(1, {0, 2});
  Stalls stalls(seconds(1), kMembers);
  negotiator.ask(1, tensor("grad"), {});
  EXPECT_EQ(
      stalls.check(negotiator, TimePoint() + seconds(2)),
      (std::vector<std::string>{"'grad' in the process set of ranks 0 and 2 has been waiting for 2 s: rank 0 "
                                "asked for it, missing: rank 2 (pid 12 on b)"}));
}

TEST(Stalls, ZeroMeansNever) {
  const auto control = make_local_control(std::make_shared<PostOffice>(2), 0);
  Negotiator negotiator(*control);
  Stalls stalls(seconds(0), kMembers);
  negotiator.ask(kWorld, tensor("grad"), {});
  EXPECT_EQ(stalls.next(negotiator), TimePoint::max());
  EXPECT_TRUE(stalls.check(negotiator, TimePoint() + seconds(1000)).empty());
}

}  // namespace
}  // namespace hora
