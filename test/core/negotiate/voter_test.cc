// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/voter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Request tensor(const std::string& name) {
  Request request;
  request.name = name;
  return request;
}

Verdict decides(const std::string& name, std::vector<int> joined = {}) {
  Verdict verdict;
  verdict.items.emplace_back();
  verdict.items.back().decision.request = tensor(name);
  verdict.items.back().decision.joined = std::move(joined);
  return verdict;
}

TEST(Voter, AsksByNumberForWhatWasDecidedBefore) {
  Voter voter(7);
  const Ballot first = voter.ask({tensor("w")});
  EXPECT_EQ(first.group, 7);
  EXPECT_EQ(first.requests.size(), 1u);
  voter.apply(decides("w"));
  const Ballot second = voter.ask({tensor("w")});
  EXPECT_THAT(second.repeats, ElementsAre(1u));
  EXPECT_THAT(second.requests, IsEmpty());
  EXPECT_EQ(second.heard, 1u);
}

TEST(Voter, DoesNotNumberWhatItStoodInFor) {
  Voter voter(kWorld);
  EXPECT_EQ(voter.apply(decides("w", {0})).size(), 1u) << "this rank has joined and did not ask";
  EXPECT_EQ(voter.ask({tensor("w")}).requests.size(), 1u);
}

TEST(Voter, RefusesVerdictsThatNoCoordinatorWouldSay) {
  Voter voter(kWorld);
  EXPECT_THROW(voter.apply(decides("w")), Error) << "it has not asked for it";
  Verdict verdict;
  verdict.items.push_back({9, {}});
  EXPECT_THROW(voter.apply(verdict), Error) << "no decision has that number";
}

}  // namespace
}  // namespace hora
