// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/voter.h"

#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

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

TEST(Voter, AsksByNumberForTheNextOfWhatHasNoName) {
  Voter voter(kWorld);
  voter.ask({tensor("sum.noname.1")});
  voter.apply(decides("sum.noname.1"));
  for (int number = 2; number < 5; ++number) {
    const std::string name = "sum.noname." + std::to_string(number);
    EXPECT_THAT(voter.ask({tensor(name)}).repeats, ElementsAre(1u));
    EXPECT_EQ(voter.repeated(1).request.name, name);
  }
  Request other = tensor("sum.noname.5");
  other.shape = {9};
  EXPECT_THAT(voter.ask({other}).repeats, IsEmpty());
}

TEST(Voter, WhatHasNoNameIsAskedForInFullWhileTheOneBeforeIsUnderWay) {
  Voter voter(kWorld);
  voter.ask({tensor("sum.noname.1")});
  voter.apply(decides("sum.noname.1"));
  const Ballot ballot = voter.ask({tensor("sum.noname.2"), tensor("sum.noname.3")});
  EXPECT_THAT(ballot.repeats, ElementsAre(1u));
  ASSERT_EQ(ballot.requests.size(), 1u);
  EXPECT_EQ(ballot.requests.front().name, "sum.noname.3");
  const Ballot again = voter.ask_again();
  EXPECT_THAT(again.repeats, ElementsAre(1u));
  EXPECT_EQ(again.requests, ballot.requests);
  EXPECT_EQ(voter.repeated(1).request.name, "sum.noname.2");
  EXPECT_EQ(voter.apply(decides("sum.noname.3")).size(), 1u);
  EXPECT_THAT(voter.ask({tensor("sum.noname.4")}).repeats, ElementsAre(2u));
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
