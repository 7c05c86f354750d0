// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/coordinator.h"

#include "core/negotiate/hint.h"
#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace hora {
namespace {

using testing::ElementsAre;

constexpr TimePoint kNow{};

std::vector<int> ranks(int size) {
  std::vector<int> all(static_cast<std::size_t>(size));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Ballot asks(std::vector<Request> requests, std::uint64_t heard = 0) {
  return {kWorld, heard, {}, std::move(requests), false};
}
Ballot repeats(std::vector<DecisionId> ids, std::uint64_t heard) {
  return {kWorld, heard, std::move(ids), {}, false};
}
Ballot leaves(std::uint64_t heard = 0) { return {kWorld, heard, {}, {}, true}; }

std::vector<std::string> names(const std::optional<Verdict>& verdict) {
  std::vector<std::string> all;
  if (!verdict) return all;
  for (const auto& item : verdict->items) all.push_back(item.decision.request.name);
  return all;
}

TEST(Coordinator, DecidesOnceEveryRankHasAsked) {
  Coordinator coordinator(ranks(2));
  coordinator.add(RankSet(0), asks({tensor("w")}), kNow);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
  coordinator.add(RankSet(1), asks({tensor("w")}), kNow);
  EXPECT_THAT(names(coordinator.decide()), ElementsAre("w"));
  EXPECT_EQ(coordinator.decide(), std::nullopt);
}

TEST(Coordinator, DecidesInTheOrderInWhichTensorsBecameComplete) {
  Coordinator coordinator(ranks(2));
  coordinator.add(RankSet(0), asks({tensor("a"), tensor("b"), tensor("c")}), kNow);
  coordinator.add(RankSet(1), asks({tensor("c"), tensor("a")}), kNow);
  coordinator.add(RankSet(1), asks({tensor("b")}), kNow);
  EXPECT_THAT(names(coordinator.decide()), ElementsAre("c", "a", "b"));
}

TEST(Coordinator, AnswersRepeatsWithTheNumber) {
  Coordinator coordinator(ranks(2));
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("w")}), kNow);
  coordinator.decide();
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), repeats({1}, 1), kNow);
  const auto verdict = coordinator.decide();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->items, (std::vector<Verdict::Item>{{1, {}}}));
}

TEST(Coordinator, WhatHasNoNameIsRepeatedUnderTheNextOne) {
  Coordinator coordinator(ranks(2));
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("sum.noname.1")}), kNow);
  coordinator.decide();
  for (std::uint64_t step = 1; step < 4; ++step) {
    for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), repeats({1}, step), kNow);
    EXPECT_EQ(coordinator.decide()->items, (std::vector<Verdict::Item>{{1, {}}}));
  }
  coordinator.add(RankSet(0), repeats({1}, 4), kNow);
  EXPECT_EQ(coordinator.waiting(kNow).front().name, "sum.noname.5");
  coordinator.add(RankSet(1), asks({tensor("sum.noname.5", 7)}, 4), kNow);
  EXPECT_EQ(coordinator.decide()->items.front().decision.status.message,
            "'sum.noname.5': tensor differs between ranks: float32[4] on rank 0, float32[7] on rank 1");
}

TEST(Coordinator, WhoAsksInFullForWhatHasNoNameMeetsThoseWhoRepeatIt) {
  Coordinator coordinator(ranks(2));
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("sum.noname.1")}), kNow);
  coordinator.decide();
  Ballot two = repeats({1}, 1);
  two.requests = {tensor("sum.noname.3")};  // before it has heard of the second
  coordinator.add(RankSet(0), two, kNow);
  coordinator.add(RankSet(1), repeats({1}, 1), kNow);
  EXPECT_EQ(coordinator.decide()->items, (std::vector<Verdict::Item>{{1, {}}}));
  coordinator.add(RankSet(1), repeats({1}, 2), kNow);
  const auto verdict = coordinator.decide();
  EXPECT_THAT(names(verdict), ElementsAre("sum.noname.3"));
  EXPECT_TRUE(verdict->items.front().decision.status.ok());
}

TEST(Coordinator, NoticesThatOneRankRepeatsAndAnotherChanged) {
  Coordinator coordinator(ranks(2));
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("w", 4)}), kNow);
  coordinator.decide();
  coordinator.add(RankSet(0), repeats({1}, 1), kNow);
  coordinator.add(RankSet(1), asks({tensor("w", 5)}, 1), kNow);
  const auto verdict = coordinator.decide();
  EXPECT_EQ(verdict->items.front().decision.status.message,
            "'w': tensor differs between ranks: float32[4] on rank 0, float32[5] on rank 1");
}

TEST(Coordinator, RemembersWhatEachRankBroughtToAnAllgather) {
  Coordinator coordinator(ranks(2));
  auto gather = tensor("g", 3);
  gather.operation = Operation::allgather;
  coordinator.add(RankSet(0), asks({gather}), kNow);
  gather.shape = {5};
  coordinator.add(RankSet(1), asks({gather}), kNow);
  coordinator.decide();
  gather.shape = {7};
  coordinator.add(RankSet(0), asks({gather}, 1), kNow);
  coordinator.add(RankSet(1), repeats({1}, 1), kNow);
  EXPECT_THAT(coordinator.decide()->items.front().decision.rows, ElementsAre(7, 5));
}

TEST(Coordinator, UnderstandsANumberThatTheSenderHasNotHeardIsForgotten) {
  Coordinator coordinator(ranks(2), 1);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("a")}), kNow);
  coordinator.decide();
  coordinator.add(RankSet(0), asks({tensor("b")}, 1), kNow);
  coordinator.add(RankSet(1), asks({tensor("b")}, 1), kNow);
  coordinator.decide();                                       // b pushes a out
  coordinator.add(RankSet(1), repeats({1}, 1), kNow);         // rank 1 has not heard that yet
  coordinator.add(RankSet(0), asks({tensor("a")}, 2), kNow);  // rank 0 has
  const auto verdict = coordinator.decide();
  EXPECT_THAT(names(verdict), ElementsAre("a"));
  EXPECT_TRUE(verdict->items.front().decision.status.ok());
}

TEST(Coordinator, KeepsAPendingRepeatWhoseNumberEveryRankHasHeardIsForgotten) {
  Coordinator coordinator(ranks(2), 1);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("a")}), kNow);
  coordinator.decide();
  coordinator.add(RankSet(1), repeats({1}, 1), kNow);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("b")}, 1), kNow);
  coordinator.decide();
  coordinator.add(RankSet(1), asks({tensor("c")}, 2), kNow);
  coordinator.add(RankSet(0), asks({tensor("c"), tensor("a")}, 2), kNow);
  EXPECT_THAT(names(coordinator.decide()), ElementsAre("c", "a"));
}

TEST(Coordinator, RefusesBallotsThatNoRankWouldCast) {
  Coordinator coordinator(ranks(2));
  EXPECT_THROW(coordinator.add(RankSet(1), repeats({1}, 0), kNow), Error);
  EXPECT_THROW(coordinator.add(RankSet(1), asks({tensor("w")}, 3), kNow), Error);
  EXPECT_THROW(coordinator.add(RankSet(1), asks({tensor("")}), kNow), Error);
  EXPECT_THROW(coordinator.add(RankSet(1), asks({tensor("w"), tensor("w")}), kNow), Error);
}

TEST(Coordinator, AbortsATensorThatALeavingRankNeverAskedFor) {
  Coordinator coordinator(ranks(3));
  coordinator.add(RankSet(0), asks({tensor("w")}), kNow);
  coordinator.add(RankSet(1), leaves(), kNow);
  const auto verdict = coordinator.decide();
  ASSERT_TRUE(verdict);
  const Status& status = verdict->items.front().decision.status;
  EXPECT_EQ(status.code, Code::aborted);
  EXPECT_EQ(status.message,
            "'w': rank 1 has left the job without submitting it\n" + hint_for_left({"w", 0, {0}, {1}}));
  EXPECT_FALSE(verdict->end);
  EXPECT_EQ(coordinator.take_missed(), std::vector<int>{1});
  EXPECT_TRUE(coordinator.take_missed().empty());
  coordinator.add(RankSet(2), asks({tensor("w")}), kNow);
  EXPECT_EQ(coordinator.decide()->items.front().decision.status.code, Code::aborted);
}

TEST(Coordinator, MissesOnlyRanksThatHaveLeftTheJobAndNotThoseThatHaveRemovedTheSet) {
  Ballot removes = leaves();
  removes.stays_in_job = true;
  Coordinator coordinator({4, 5, 6});
  coordinator.add(RankSet(0), asks({tensor("w")}), kNow);
  coordinator.add(RankSet(2), removes, kNow);
  const auto first = coordinator.decide();
  ASSERT_TRUE(first);
  EXPECT_THAT(
      first->items.front().decision.status.message,
      testing::StartsWith("'w': rank 6 has removed the process set without submitting it\nSo far only "
                          "rank 4 called it; "));
  EXPECT_TRUE(coordinator.take_missed().empty());
  coordinator.add(RankSet(1), leaves(), kNow);
  coordinator.add(RankSet(0), asks({tensor("v")}), kNow);
  const auto second = coordinator.decide();
  ASSERT_TRUE(second);
  EXPECT_THAT(second->items.front().decision.status.message,
              testing::StartsWith("'v': rank 5 has left the job without submitting it\n"));
  EXPECT_EQ(coordinator.take_missed(), std::vector<int>{5});
}

TEST(Coordinator, StillDecidesWhatALeavingRankAskedForBefore) {
  Coordinator coordinator(ranks(2));
  coordinator.add(RankSet(1), asks({tensor("w")}), kNow);
  coordinator.add(RankSet(1), leaves(), kNow);
  coordinator.add(RankSet(0), asks({tensor("w")}), kNow);
  const auto verdict = coordinator.decide();
  EXPECT_TRUE(verdict->items.front().decision.status.ok());
}

TEST(Coordinator, EndsTheJobWhenAllHaveLeft) {
  Coordinator coordinator(ranks(2));
  coordinator.add(RankSet(0), leaves(), kNow);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
  coordinator.add(RankSet(1), leaves(), kNow);
  const auto verdict = coordinator.decide();
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->end);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
}

TEST(Coordinator, KnowsWhoIsMissingAndSinceWhen) {
  using std::chrono::seconds;
  Coordinator coordinator(ranks(3));
  EXPECT_EQ(coordinator.oldest(), TimePoint::max());
  coordinator.add(RankSet(0), asks({tensor("early")}), kNow + seconds(1));
  coordinator.add(RankSet(2), asks({tensor("early"), tensor("late")}), kNow + seconds(5));
  EXPECT_EQ(coordinator.oldest(), kNow + seconds(1));
  const auto waiting = coordinator.waiting(kNow + seconds(4));
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting.front().name, "early");
  EXPECT_EQ(waiting.front().what, "allreduce float32[4]");
  EXPECT_EQ(waiting.front().step, 0u) << "nothing has been repeated yet";
  EXPECT_EQ(waiting.front().since, kNow + seconds(1));
  EXPECT_THAT(waiting.front().asked, ElementsAre(0, 2));
  EXPECT_THAT(waiting.front().missing, ElementsAre(1));
  coordinator.add(RankSet(1), asks({tensor("early")}), kNow + seconds(6));
  EXPECT_TRUE(coordinator.waiting(kNow + seconds(4)).empty())
      << "it waits for nobody, only for the next verdict";
}

TEST(Coordinator, CountsStepsByWhatIsRepeated) {
  Coordinator coordinator(ranks(2));
  for (int place = 0; place < 2; ++place)
    coordinator.add(RankSet(place), asks({tensor("a"), tensor("b")}), kNow);
  coordinator.decide();
  std::uint64_t heard = 1;
  for (; heard < 4; ++heard) {
    for (int place = 0; place < 2; ++place) coordinator.add(RankSet(place), repeats({1, 2}, heard), kNow);
    coordinator.decide();
  }
  coordinator.add(RankSet(0), repeats({1}, heard), kNow);
  EXPECT_EQ(coordinator.waiting(kNow).front().step, 5u);
  coordinator.add(RankSet(1), repeats({1}, heard), kNow);
  coordinator.decide();
  coordinator.add(RankSet(0), repeats({2}, heard + 1), kNow);
  EXPECT_EQ(coordinator.waiting(kNow).front().step, 5u) << "whichever comes first";
  coordinator.add(RankSet(1), asks({tensor("b", 5)}, heard + 1), kNow);
  coordinator.decide();
  coordinator.add(RankSet(0), asks({tensor("c")}, heard + 1), kNow);
  EXPECT_EQ(coordinator.waiting(kNow).front().step, 0u) << "a new one";
}

TEST(Coordinator, TellsOfEachStepHowLongOthersWaitedForWhom) {
  using std::chrono::milliseconds;
  Coordinator coordinator(ranks(2));
  for (int place = 0; place < 2; ++place)
    coordinator.add(RankSet(place), asks({tensor("a"), tensor("b")}), kNow);
  coordinator.decide();
  EXPECT_TRUE(coordinator.take_steps().empty());
  for (int step = 1; step < 4; ++step) {
    const TimePoint begin = kNow + std::chrono::seconds(step);
    const auto heard = static_cast<std::uint64_t>(step);
    coordinator.add(RankSet(0), repeats({1, 2}, heard), begin);
    coordinator.add(RankSet(1), repeats({1}, heard), begin + milliseconds(30));
    coordinator.add(RankSet(1), repeats({2}, heard), begin + milliseconds(step * 50));
    coordinator.decide();
  }
  const auto steps = coordinator.take_steps();
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[2].number, 3u);
  EXPECT_THAT(steps[2].behind, ElementsAre(milliseconds(0), milliseconds(150)));
  EXPECT_TRUE(coordinator.take_steps().empty());
}

TEST(Coordinator, TellsThatWhoWasAddedFirstWasBehindWhoHadAskedBefore) {
  using std::chrono::milliseconds;
  Coordinator coordinator(ranks(3));
  for (int place = 0; place < 3; ++place)
    coordinator.add(RankSet(place), asks({tensor("a"), tensor("b")}), kNow);
  coordinator.decide();
  coordinator.add(RankSet(0), repeats({2}, 1), kNow + milliseconds(40));
  coordinator.add(RankSet(0), repeats({1}, 1), kNow + milliseconds(50));
  coordinator.add(RankSet(1), repeats({1}, 1), kNow + milliseconds(10));
  EXPECT_EQ(coordinator.oldest(), kNow + milliseconds(10));
  EXPECT_EQ(coordinator.waiting(kNow + milliseconds(10)).front().name, "a");
  coordinator.add(RankSet(2), repeats({1}, 1), kNow + milliseconds(30));
  coordinator.decide();
  EXPECT_THAT(coordinator.take_steps().front().behind,
              ElementsAre(milliseconds(40), milliseconds(0), milliseconds(20)));
}

Request joins(bool divide_by_initial_size = true) {
  Request request;
  request.operation = Operation::join;
  request.name = kJoinName;
  request.divide_by_initial_size = divide_by_initial_size;
  return request;
}

TEST(Coordinator, DecidesWithoutWhoHasJoined) {
  Coordinator coordinator(ranks(3));
  coordinator.add(RankSet(2), asks({joins()}), kNow);
  coordinator.add(RankSet(0), asks({tensor("w")}), kNow);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
  coordinator.add(RankSet(1), asks({tensor("w")}), kNow);
  const auto decision = coordinator.decide()->items.front().decision;
  EXPECT_TRUE(decision.status.ok());
  EXPECT_THAT(decision.joined, ElementsAre(2));
  EXPECT_EQ(decision.divisor, 3);
}

TEST(Coordinator, DividesByWhoIsLeftIfThatIsWanted) {
  Coordinator coordinator(ranks(3));
  coordinator.add(RankSet(2), asks({joins(false)}), kNow);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("w")}), kNow);
  EXPECT_EQ(coordinator.decide()->items.front().decision.divisor, 2);
}

TEST(Coordinator, DecidesWhatWaitedOnlyForARankThatJoins) {
  Coordinator coordinator(ranks(2));
  coordinator.add(RankSet(0), asks({tensor("w")}), kNow);
  coordinator.add(RankSet(1), asks({joins()}), kNow);
  EXPECT_THAT(names(coordinator.decide()), ElementsAre("w"));
}

TEST(Coordinator, EndsAJoinLastAndNamesWhoJoinedLast) {
  Coordinator coordinator(ranks(3));
  coordinator.add(RankSet(2), asks({joins()}), kNow);
  coordinator.add(RankSet(0), asks({tensor("w"), joins()}), kNow);
  coordinator.add(RankSet(1), asks({joins()}), kNow);
  const auto verdict = coordinator.decide();
  EXPECT_THAT(names(verdict), ElementsAre("w", kJoinName));
  EXPECT_EQ(verdict->items.back().decision.request.root, 1);
  for (int rank = 0; rank < 3; ++rank) coordinator.add(RankSet(rank), asks({tensor("w")}, 1), kNow);
  EXPECT_TRUE(coordinator.decide()->items.front().decision.joined.empty()) << "nobody has joined any more";
}

TEST(Coordinator, FailsWhatCannotBeDoneWithoutWhoHasJoined) {
  Coordinator coordinator(ranks(2));
  auto broadcast = tensor("b");
  broadcast.operation = Operation::broadcast;
  coordinator.add(RankSet(1), asks({joins()}), kNow);
  coordinator.add(RankSet(0), asks({broadcast}), kNow);
  EXPECT_EQ(coordinator.decide()->items.front().decision.status.message,
            "'b': broadcast is not supported with join, and rank 1 joined already");
}

TEST(Coordinator, SaysWhyARankCannotBringItsTensorAlsoWhereAnotherHasJoined) {
  Coordinator coordinator(ranks(3));
  auto failed = tensor("b");
  failed.operation = Operation::broadcast;  // of which nobody can be left out
  failed.failed_with = "backward() failed";
  coordinator.add(RankSet(2), asks({joins()}), kNow);
  coordinator.add(RankSet(0), asks({failed}), kNow);
  coordinator.add(RankSet(1), asks({tensor("b")}), kNow);
  const auto status = coordinator.decide()->items.front().decision.status;
  EXPECT_EQ(status, (Status{Code::rank_failed, "'b': rank 0's backward() failed"}));
}

TEST(Coordinator, WhatARankCouldNotBringIsNeitherARepeatNorRemembered) {
  Coordinator coordinator(ranks(2));
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("w")}), kNow);
  coordinator.decide();
  auto failed = tensor("w");
  failed.failed_with = "backward() failed";
  coordinator.add(RankSet(0), repeats({1}, 1), kNow);
  coordinator.add(RankSet(1), asks({failed}, 1), kNow);
  EXPECT_EQ(coordinator.decide()->items.front().decision.status.code, Code::rank_failed);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("w")}, 2), kNow);
  EXPECT_TRUE(coordinator.decide()->items.front().decision.status.ok());
}

TEST(Coordinator, RepeatsStillMeanWhatTheyMeantAfterAJoin) {
  Coordinator coordinator(ranks(2));
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), asks({tensor("w")}), kNow);
  coordinator.decide();
  coordinator.add(RankSet(1), asks({joins()}, 1), kNow);
  coordinator.add(RankSet(0), repeats({1}, 1), kNow);
  EXPECT_THAT(coordinator.decide()->items.front().decision.joined, ElementsAre(1));
  coordinator.add(RankSet(0), asks({joins()}, 2), kNow);
  coordinator.decide();
  for (int rank = 0; rank < 2; ++rank) coordinator.add(RankSet(rank), repeats({1}, 3), kNow);
  EXPECT_EQ(coordinator.decide()->items.front().repeat, 1u);
}

TEST(Coordinator, AJoinFailsIfARankLeavesWithoutIt) {
  Coordinator coordinator(ranks(2));
  coordinator.add(RankSet(0), asks({joins()}), kNow);
  coordinator.add(RankSet(1), leaves(), kNow);
  EXPECT_EQ(coordinator.decide()->items.front().decision.status.code, Code::aborted);
}

TEST(Coordinator, WhatBelongsTogetherFailsTogether) {
  Coordinator coordinator(ranks(2));
  const auto bundled = [](const std::string& name, std::int64_t length) {
    auto request = tensor(name, length);
    request.bundle = "a";
    return request;
  };
  for (int round = 0; round < 2; ++round) {
    const auto heard = static_cast<std::uint64_t>(round);
    coordinator.add(RankSet(0), asks({bundled("a", 4), bundled("b", 4), tensor("c")}, heard), kNow);
    coordinator.add(RankSet(1), asks({bundled("a", 4), bundled("b", round == 0 ? 4 : 5), tensor("c")}, heard),
                    kNow);
    const auto verdict = coordinator.decide();
    std::vector<bool> ok;
    for (const auto& item : verdict->items) ok.push_back(item.decision.status.ok());
    EXPECT_THAT(ok, round == 0 ? ElementsAre(true, true, true) : ElementsAre(false, false, true));
  }
}

Request process_set(const std::vector<int>& members) {
  Request request;
  request.operation = Operation::add_process_set;
  request.name = "set";
  request.set_name = "set";
  request.ranks = members;
  return request;
}

TEST(Coordinator, DecidesAProcessSetThatHasANameOnceItsRanksHaveAsked) {
  Coordinator coordinator(ranks(4));
  coordinator.add(RankSet(3), asks({process_set({1, 3})}), kNow);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
  const auto waiting = coordinator.waiting(kNow);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_THAT(waiting.front().missing, ElementsAre(1));
  coordinator.add(RankSet(1), asks({process_set({1, 3})}), kNow);
  EXPECT_THAT(names(coordinator.decide()), ElementsAre("set"));
  for (const int rank : {1, 3}) coordinator.add(RankSet(rank), asks({process_set({1, 3})}), kNow);
  EXPECT_THAT(names(coordinator.decide()), ElementsAre("set"));
}

TEST(Coordinator, OnlyARankOfTheProcessSetIsMissedWhenItLeaves) {
  Coordinator coordinator(ranks(4));
  coordinator.add(RankSet(1), asks({process_set({1, 3})}), kNow);
  coordinator.add(RankSet(0), leaves(), kNow);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
  coordinator.add(RankSet(3), leaves(), kNow);
  const auto verdict = coordinator.decide();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->items.front().decision.status.code, Code::aborted);
  EXPECT_THAT(coordinator.take_missed(), ElementsAre(3));
}

TEST(Coordinator, HearsThousandsAsOneVoice) {
  Coordinator coordinator(ranks(10000));
  coordinator.add(RankSet(0, 5000), asks({tensor("a"), tensor("b")}), kNow);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
  EXPECT_EQ(coordinator.waiting(kNow).front().missing.front(), 5000);
  coordinator.add(RankSet(5001, 10000), asks({tensor("a"), tensor("b")}), kNow);
  coordinator.add(RankSet(5000), asks({tensor("a"), tensor("b", 5)}), kNow);
  const auto verdict = coordinator.decide();
  ASSERT_EQ(verdict->items.size(), 2u);
  EXPECT_TRUE(verdict->items[0].decision.status.ok());
  EXPECT_EQ(verdict->items[0].decision.divisor, 10000);
  EXPECT_EQ(
      verdict->items[1].decision.status.message,
      "'b': tensor differs between ranks: float32[4] on ranks 0-4999, 5001-9999, float32[5] on rank 5000");
  coordinator.add(RankSet(0, 10000), repeats({1}, 1), kNow);
  EXPECT_EQ(coordinator.decide()->items, (std::vector<Verdict::Item>{{1, {}}}));
}

TEST(Coordinator, CallsTheMembersOfASmallerGroupByTheirRanks) {
  Coordinator coordinator({1, 3});
  coordinator.add(RankSet(0), asks({tensor("w", 4)}), kNow);
  EXPECT_THAT(coordinator.waiting(kNow).front().missing, ElementsAre(3));
  coordinator.add(RankSet(1), asks({tensor("w", 5)}), kNow);
  EXPECT_EQ(coordinator.decide()->items.front().decision.status.message,
            "'w': tensor differs between ranks: float32[4] on rank 1, float32[5] on rank 3");
}

}  // namespace
}  // namespace hora
