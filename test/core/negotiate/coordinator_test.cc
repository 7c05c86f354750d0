// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora {
namespace {

using testing::ElementsAre;

constexpr TimePoint kNow{};

Request tensor(const std::string& name, std::int64_t length = 4) {
  Request request;
  request.name = name;
  request.shape = {length};
  return request;
}

Ballot asks(std::vector<Request> requests, std::uint64_t heard = 0) {
  return {heard, {}, std::move(requests), false};
}
Ballot repeats(std::vector<DecisionId> ids, std::uint64_t heard) {
  return {heard, std::move(ids), {}, false};
}
Ballot leaves(std::uint64_t heard = 0) { return {heard, {}, {}, true}; }

std::vector<std::string> names(const std::optional<Verdict>& verdict) {
  std::vector<std::string> all;
  if (!verdict) return all;
  for (const auto& item : verdict->items) all.push_back(item.decision.request.name);
  return all;
}

TEST(Coordinator, DecidesOnceEveryRankHasAsked) {
  Coordinator coordinator(2);
  coordinator.add(0, asks({tensor("w")}), kNow);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
  coordinator.add(1, asks({tensor("w")}), kNow);
  EXPECT_THAT(names(coordinator.decide()), ElementsAre("w"));
  EXPECT_EQ(coordinator.decide(), std::nullopt);
}

TEST(Coordinator, DecidesInTheOrderInWhichTensorsBecameComplete) {
  Coordinator coordinator(2);
  coordinator.add(0, asks({tensor("a"), tensor("b"), tensor("c")}), kNow);
  coordinator.add(1, asks({tensor("c"), tensor("a")}), kNow);
  coordinator.add(1, asks({tensor("b")}), kNow);
  EXPECT_THAT(names(coordinator.decide()), ElementsAre("c", "a", "b"));
}

TEST(Coordinator, AnswersRepeatsWithTheNumber) {
  Coordinator coordinator(2);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(rank, asks({tensor("w")}), kNow);
  coordinator.decide();
  for (int rank = 0; rank < 2; ++rank) coordinator.add(rank, repeats({1}, 1), kNow);
  const auto verdict = coordinator.decide();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->items, (std::vector<Verdict::Item>{{1, {}}}));
}

TEST(Coordinator, NoticesThatOneRankRepeatsAndAnotherChanged) {
  Coordinator coordinator(2);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(rank, asks({tensor("w", 4)}), kNow);
  coordinator.decide();
  coordinator.add(0, repeats({1}, 1), kNow);
  coordinator.add(1, asks({tensor("w", 5)}, 1), kNow);
  const auto verdict = coordinator.decide();
  EXPECT_EQ(verdict->items.front().decision.status.message,
            "'w': tensor differs between ranks: float32[4] on rank 0, float32[5] on rank 1");
}

TEST(Coordinator, RemembersWhatEachRankBroughtToAnAllgather) {
  Coordinator coordinator(2);
  auto gather = tensor("g", 3);
  gather.operation = Operation::allgather;
  coordinator.add(0, asks({gather}), kNow);
  gather.shape = {5};
  coordinator.add(1, asks({gather}), kNow);
  coordinator.decide();
  gather.shape = {7};
  coordinator.add(0, asks({gather}, 1), kNow);
  coordinator.add(1, repeats({1}, 1), kNow);
  EXPECT_THAT(coordinator.decide()->items.front().decision.rows, ElementsAre(7, 5));
}

TEST(Coordinator, UnderstandsANumberThatTheSenderHasNotHeardIsForgotten) {
  Coordinator coordinator(2, 1);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(rank, asks({tensor("a")}), kNow);
  coordinator.decide();
  coordinator.add(0, asks({tensor("b")}, 1), kNow);
  coordinator.add(1, asks({tensor("b")}, 1), kNow);
  coordinator.decide();                              // b pushes a out
  coordinator.add(1, repeats({1}, 1), kNow);         // rank 1 has not heard that yet
  coordinator.add(0, asks({tensor("a")}, 2), kNow);  // rank 0 has
  const auto verdict = coordinator.decide();
  EXPECT_THAT(names(verdict), ElementsAre("a"));
  EXPECT_TRUE(verdict->items.front().decision.status.ok());
}

TEST(Coordinator, KeepsAPendingRepeatWhoseNumberEveryRankHasHeardIsForgotten) {
  Coordinator coordinator(2, 1);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(rank, asks({tensor("a")}), kNow);
  coordinator.decide();
  coordinator.add(1, repeats({1}, 1), kNow);
  for (int rank = 0; rank < 2; ++rank) coordinator.add(rank, asks({tensor("b")}, 1), kNow);
  coordinator.decide();
  coordinator.add(1, asks({tensor("c")}, 2), kNow);
  coordinator.add(0, asks({tensor("c"), tensor("a")}, 2), kNow);
  EXPECT_THAT(names(coordinator.decide()), ElementsAre("c", "a"));
}

TEST(Coordinator, RefusesBallotsThatNoRankWouldCast) {
  Coordinator coordinator(2);
  EXPECT_THROW(coordinator.add(1, repeats({1}, 0), kNow), Error);
  EXPECT_THROW(coordinator.add(1, asks({tensor("w")}, 3), kNow), Error);
  EXPECT_THROW(coordinator.add(1, asks({tensor("")}), kNow), Error);
  EXPECT_THROW(coordinator.add(1, asks({tensor("w"), tensor("w")}), kNow), Error);
}

TEST(Coordinator, AbortsATensorThatALeavingRankNeverAskedFor) {
  Coordinator coordinator(3);
  coordinator.add(0, asks({tensor("w")}), kNow);
  coordinator.add(1, leaves(), kNow);
  const auto verdict = coordinator.decide();
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->items.front().decision.status,
            (Status{Code::aborted, "'w': rank 1 has left the job without submitting it"}));
  EXPECT_FALSE(verdict->end);
  coordinator.add(2, asks({tensor("w")}), kNow);
  EXPECT_EQ(coordinator.decide()->items.front().decision.status.code, Code::aborted);
}

TEST(Coordinator, StillDecidesWhatALeavingRankAskedForBefore) {
  Coordinator coordinator(2);
  coordinator.add(1, asks({tensor("w")}), kNow);
  coordinator.add(1, leaves(), kNow);
  coordinator.add(0, asks({tensor("w")}), kNow);
  const auto verdict = coordinator.decide();
  EXPECT_TRUE(verdict->items.front().decision.status.ok());
}

TEST(Coordinator, EndsTheJobWhenAllHaveLeft) {
  Coordinator coordinator(2);
  coordinator.add(0, leaves(), kNow);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
  coordinator.add(1, leaves(), kNow);
  const auto verdict = coordinator.decide();
  ASSERT_TRUE(verdict);
  EXPECT_TRUE(verdict->end);
  EXPECT_EQ(coordinator.decide(), std::nullopt);
}

TEST(Coordinator, KnowsWhoIsMissingAndSinceWhen) {
  using std::chrono::seconds;
  Coordinator coordinator(3);
  EXPECT_EQ(coordinator.oldest(), TimePoint::max());
  coordinator.add(0, asks({tensor("early")}), kNow + seconds(1));
  coordinator.add(2, asks({tensor("early"), tensor("late")}), kNow + seconds(5));
  EXPECT_EQ(coordinator.oldest(), kNow + seconds(1));
  const auto waiting = coordinator.waiting(kNow + seconds(4));
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting.front().name, "early");
  EXPECT_EQ(waiting.front().since, kNow + seconds(1));
  EXPECT_THAT(waiting.front().asked, ElementsAre(0, 2));
  EXPECT_THAT(waiting.front().missing, ElementsAre(1));
}

}  // namespace
}  // namespace hora
