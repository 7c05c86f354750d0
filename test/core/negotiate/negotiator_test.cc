// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/negotiator.h"

#include "core/backend/local/control_queues.h"
#include "test/core/negotiate/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace hora {
namespace {

using testing::ElementsAre;

constexpr TimePoint kStart{};

/// Some ranks of one negotiation, all driven by one thread: nothing here depends on timing.
class Ranks {
 public:
  explicit Ranks(int size, std::size_t capacity = 8192, bool locks = false, int radix = 0) {
    if (locks) votes_ = make_votes(size);
    for (auto& call : votes_) WakeUp(call->wake_up()).sleeps_for(Sleep::any_news);
    auto queues = std::make_shared<local::ControlQueues>(size, radix);
    for (int rank = 0; rank < size; ++rank) {
      controls_.push_back(local::make_local_control(queues, rank));
      controls_.back()->on_event([this, rank] {
        ++messages_;
        if (!votes_.empty()) WakeUp(votes_[static_cast<std::size_t>(rank)]->wake_up()).ring();
      });
    }
    for (auto& control : controls_) {
      ReadinessVote* call = locks ? votes_[static_cast<std::size_t>(control->rank())].get() : nullptr;
      ranks_.push_back(std::make_unique<Negotiator>(*control, call, capacity));
    }
  }

  Negotiator& operator[](int rank) { return *ranks_[static_cast<std::size_t>(rank)]; }
  /// How often a rank was told that there is something to do.
  [[nodiscard]] std::uint64_t rings(int rank) const {
    return WakeUp(votes_[static_cast<std::size_t>(rank)]->wake_up()).rings();
  }
  /// That have been sent so far, by all.
  [[nodiscard]] int messages() const { return messages_; }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }

  /// The decisions that a rank receives without waiting, in one list.
  std::vector<std::string> hear(int rank, TimePoint now = kStart) {
    std::vector<std::string> all;
    for (;;) {
      const auto news = (*this)[rank].hear(now, false);
      if (news.empty()) return all;
      for (const auto& heard : news) {
        for (const auto& decision : heard.decisions)
          all.push_back((heard.group == kWorld ? "" : std::to_string(heard.group) + "/") +
                        decision.request.name);
      }
    }
  }

 private:
  int messages_ = 0;
  std::vector<std::unique_ptr<Control>> controls_;
  std::vector<std::unique_ptr<ReadinessVote>> votes_;
  std::vector<std::unique_ptr<Negotiator>> ranks_;
};

/// The request by which a rank leaves a group.
Request removal() {
  Request request;
  request.operation = Operation::remove_process_set;
  request.name = kRemovalName;
  return request;
}

// In a star, in a tree, and while the order of the world's decisions is locked.
TEST(Negotiator, AGroupEndsOnAllRanksWhenEachOfItsMembersHasLeftIt) {
  struct Case {
    bool locks;
    int radix;
  };
  for (const auto& [locks, radix] : {Case{false, 0}, Case{false, 2}, Case{true, 0}}) {
    Ranks ranks(5, 8192, locks, radix);
    std::map<int, std::vector<std::string>> told;  // by rank
    TimePoint now = kStart;
    const auto hear = [&] {
      for (int round = 0; round < 20; ++round) {
        now += std::chrono::milliseconds(100);  // branches of a tree pass on what some ranks ask
        for (int rank = 0; rank < 5; ++rank) {
          for (const auto& heard : ranks[rank].hear(now, true)) {
            for (const auto& each : heard.decisions)
              told[rank].push_back(each.request.name + (each.status.ok() ? "" : " failed"));
            for (const int group : heard.ended) {
              told[rank].push_back("end of " + std::to_string(group));
              ranks[rank].remove_group(group);
            }
          }
        }
      }
    };
    const auto ask_all = [&](const std::string& name) {
      for (int rank = 0; rank < 5; ++rank) ranks[rank].ask(kWorld, {tensor(name)}, now);
      hear();
    };
    for (int rank = 0; rank < 5; ++rank) ranks[rank].add_group(1, {2, 4});
    for (int step = 0; step < 8; ++step) ask_all("w");
    EXPECT_EQ(ranks[3].is_locked(), locks);
    told.clear();
    ranks[2].ask(1, {removal()}, now);
    ranks[4].ask(1, {tensor("x")}, now);
    hear();
    ask_all("w");
    ranks[2].ask(1, {tensor("y")}, now);  // is never asked for
    ranks[4].ask(1, {removal()}, now);
    hear();
    ask_all("w");
    for (int rank = 0; rank < 5; ++rank) {
      const auto own = rank == 4 ? std::vector<std::string>{"x failed"} : std::vector<std::string>{};
      std::vector<std::string> expected = own;
      expected.insert(expected.end(), {"w", "end of 1", "w"});
      EXPECT_EQ(told[rank], expected) << "rank " << rank << ", locks " << locks << ", radix " << radix;
    }
    for (int rank = 0; rank < 5; ++rank) ranks[rank].leave(now);
    hear();  // nobody leaves the group twice
  }
}

TEST(Negotiator, EveryRankHearsTheSameDecisionsInTheSameOrder) {
  Ranks ranks(3);
  ranks[2].ask(kWorld, {tensor("b"), tensor("a")}, kStart);
  ranks[0].ask(kWorld, {tensor("a"), tensor("b")}, kStart);
  EXPECT_THAT(ranks.hear(0), ElementsAre());
  ranks[1].ask(kWorld, {tensor("a"), tensor("b")}, kStart);
  const auto order = ranks.hear(0);
  EXPECT_EQ(order.size(), 2u);
  EXPECT_EQ(ranks.hear(1), order);
  EXPECT_EQ(ranks.hear(2), order);
}

TEST(Negotiator, AloneItDecidesAtOnce) {
  Ranks ranks(1);
  ranks[0].ask(kWorld, {tensor("a")}, kStart);
  EXPECT_THAT(ranks.hear(0), ElementsAre("a"));
}

TEST(Negotiator, ReportsTheEndWhenAllHaveLeft) {
  Ranks ranks(2);
  ranks[0].leave(kStart);
  ranks[1].leave(kStart);
  EXPECT_TRUE(ranks[0].hear(kStart, false).back().end);
  EXPECT_TRUE(ranks[1].hear(kStart, false).back().end);
}

TEST(Negotiator, ThrowsTheLossOfARank) {
  auto queues = std::make_shared<local::ControlQueues>(2);
  const auto control = local::make_local_control(queues, 0);
  Negotiator position(*control);
  queues->lose(1, {Code::aborted, "rank 1 is gone"});
  EXPECT_THROW(position.hear(kStart, false), Error);
}

/// Two ranks do this twice. The bytes of a rank's second ballot.
std::size_t bytes_of_the_second_ballot(Operation operation) {
  auto queues = std::make_shared<local::ControlQueues>(2);
  const auto first = local::make_local_control(queues, 0);
  const auto second = local::make_local_control(queues, 1);
  Request request = tensor("a rather long name of a parameter");
  request.operation = operation;
  Negotiator position(*second);
  position.ask(kWorld, {request}, kStart);
  Negotiator root(*first);
  root.ask(kWorld, {request}, kStart);
  root.hear(kStart, false);
  EXPECT_EQ(position.hear(kStart, false).front().decisions.size(), 1u);
  position.ask(kWorld, {request}, kStart);
  return expect_message(first->receive(TimePoint::min()).value()).bytes.size();
}

TEST(Negotiator, RepeatedStepsSendNoNames) {
  for (const auto operation : {Operation::allreduce, Operation::broadcast, Operation::allgather,
                               Operation::barrier, Operation::alltoall, Operation::reducescatter,
                               Operation::gather, Operation::scatter, Operation::reduce, Operation::scan})
    EXPECT_LE(bytes_of_the_second_ballot(operation), 8u) << name(operation);
}

// Random submission order, shapes that change, names that come and go, and a schedule that is too small for
// all of them: ranks always hear the same, whatever is forgotten in between.
TEST(Negotiator, RanksAgreeWhateverIsForgotten) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Ranks ranks(3, 4);
    for (int step = 0; step < 20; ++step) {
      std::vector<Request> wanted;
      for (int i = 0; i < 6; ++i) {
        wanted.push_back(
            tensor("t" + std::to_string(random() % 9), static_cast<std::int64_t>(random() % 2 + 1)));
      }
      std::sort(wanted.begin(), wanted.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
      wanted.erase(std::unique(wanted.begin(), wanted.end(),
                               [](const auto& a, const auto& b) { return a.name == b.name; }),
                   wanted.end());
      for (int rank = 2; rank >= 0; --rank) {
        std::shuffle(wanted.begin(), wanted.end(), random);
        const auto half = wanted.begin() + static_cast<std::ptrdiff_t>(random() % (wanted.size() + 1));
        ranks[rank].ask(kWorld, {wanted.begin(), half}, kStart);
        ranks[rank].ask(kWorld, {half, wanted.end()}, kStart);
      }
      const auto order = ranks.hear(0);
      EXPECT_EQ(order.size(), wanted.size());
      for (int rank = 1; rank < 3; ++rank) EXPECT_EQ(ranks.hear(rank), order);
    }
  }
}

TEST(Negotiator, CountsHowLongATensorWaitsFromWhenTheAskingCameHoweverLateItIsRead) {
  auto queues = std::make_shared<local::ControlQueues>(2);
  const auto first = local::make_local_control(queues, 0);
  const auto second = local::make_local_control(queues, 1);
  Negotiator root(*first);
  Negotiator position(*second);
  root.hear(kStart, false);
  const TimePoint asked = Clock::now();  // long after the root began to wait for it
  position.ask(kWorld, {tensor("a")}, asked);
  const TimePoint read = Clock::now();
  root.hear(kStart, false);
  EXPECT_GE(root.oldest(), asked);
  EXPECT_LE(root.oldest(), read);
}

TEST(Negotiator, AnInquiryReachesOneRankAndCountsAsNoVerdict) {
  Ranks ranks(3);
  ranks[0].inquire(1);
  const auto heard = ranks[1].hear(kStart, false);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_TRUE(heard.front().inquiry);
  EXPECT_TRUE(ranks[2].hear(kStart, false).empty());
  for (int rank = 0; rank < 3; ++rank) ranks[rank].ask(kWorld, {tensor("a")}, kStart);
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(ranks.hear(rank), ElementsAre("a"));
}

TEST(Negotiator, ReportsReachRankZeroInOrder) {
  Ranks ranks(2);
  ranks[1].report(Report::delay, Bytes(1));
  ranks[1].leave(kStart);
  ranks[1].report(Report::trace, Bytes(2));
  ranks[0].hear(kStart, false);
  ranks[0].report(Report::account, Bytes(3));
  const auto told = ranks[0].take_reports();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].rank, 1);
  EXPECT_EQ(told[0].kind, Report::delay);
  EXPECT_EQ(told[1].content, Bytes(2));
  EXPECT_EQ(told[2].rank, 0);
  EXPECT_TRUE(ranks[0].take_reports().empty());
}

TEST(Negotiator, DoesNotHearThatFailedWhatItHasNotAskedFor) {
  Ranks ranks(3);
  ranks[2].leave(kStart);
  ranks[0].ask(kWorld, {tensor("a")}, kStart);
  EXPECT_THAT(ranks.hear(0), ElementsAre("a"));
  EXPECT_THAT(ranks.hear(1), ElementsAre());
  ranks[1].ask(kWorld, {tensor("a")}, kStart);
  EXPECT_THAT(ranks.hear(0), ElementsAre());
  EXPECT_THAT(ranks.hear(1), ElementsAre("a"));
}

TEST(Negotiator, OnlyMembersHearWhatConcernsAGroup) {
  Ranks ranks(3);
  for (int rank = 0; rank < 3; ++rank) ranks[rank].add_group(1, {1, 2});
  ranks[1].ask(1, {tensor("a")}, kStart);
  ranks[2].ask(1, {tensor("a")}, kStart);
  EXPECT_THAT(ranks.hear(0), ElementsAre()) << "rank 0 decides, but is no member";
  EXPECT_THAT(ranks.hear(1), ElementsAre("1/a"));
  EXPECT_THAT(ranks.hear(2), ElementsAre("1/a"));
}

TEST(Negotiator, GroupsHaveNamesOfTheirOwn) {
  Ranks ranks(2);
  for (int rank = 0; rank < 2; ++rank) ranks[rank].add_group(1, {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank].ask(kWorld, {tensor("a", 4)}, kStart);
    ranks[rank].ask(1, {tensor("a", 5)}, kStart);
  }
  EXPECT_THAT(ranks.hear(0), testing::UnorderedElementsAre("a", "1/a"));
  EXPECT_THAT(ranks.hear(1), testing::UnorderedElementsAre("a", "1/a"));
}

// Ranks submit requests in groups that overlap, in any order. Two ranks receive the decisions that concern
// both in one order.
TEST(Negotiator, RanksInSeveralGroupsHearOneOrder) {
  const std::vector<std::vector<int>> groups{{0, 1, 2}, {0, 1}, {1, 2}, {0, 2}};
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Ranks ranks(3);
    for (int rank = 0; rank < 3; ++rank) {
      for (int group = 1; group < 4; ++group)
        ranks[rank].add_group(group, groups[static_cast<std::size_t>(group)]);
    }
    std::vector<std::vector<std::string>> heard(3);
    for (int step = 0; step < 20; ++step) {
      std::vector<std::pair<int, int>> asks;  // rank, group
      for (int group = 0; group < 4; ++group) {
        for (const int rank : groups[static_cast<std::size_t>(group)]) asks.emplace_back(rank, group);
      }
      std::shuffle(asks.begin(), asks.end(), random);
      for (const auto& [rank, group] : asks) {
        ranks[rank].ask(group, {tensor(std::to_string(step % 3))}, kStart);
        if (random() % 2 == 0) {
          for (auto& name : ranks.hear(0)) heard[0].push_back(std::move(name));
        }
      }
      for (int rank = 0; rank < 3; ++rank) {
        for (auto& name : ranks.hear(rank)) heard[static_cast<std::size_t>(rank)].push_back(std::move(name));
      }
    }
    const auto shared = [&](int rank, char other_group) {
      std::vector<std::string> names;
      for (const auto& name : heard[static_cast<std::size_t>(rank)]) {
        if (name.find('/') == std::string::npos || name.front() == other_group) names.push_back(name);
      }
      return names;
    };
    EXPECT_EQ(shared(0, '1'), shared(1, '1'));
    EXPECT_EQ(shared(1, '2'), shared(2, '2'));
    EXPECT_EQ(shared(0, '3'), shared(2, '3'));
    EXPECT_EQ(shared(0, '1').size(), 40u);
  }
}

TEST(Negotiator, IgnoresBallotsForAGroupThatWasRemovedMeanwhile) {
  Ranks ranks(2);
  for (int rank = 0; rank < 2; ++rank) ranks[rank].add_group(1, {0, 1});
  ranks[1].ask(1, {tensor("late")}, kStart);
  ranks[0].remove_group(1);
  EXPECT_THAT(ranks.hear(0), ElementsAre());
  ranks[1].ask(2, {tensor("never")}, kStart);  // this rank is in no such group
  EXPECT_THAT(ranks.hear(0), ElementsAre());
}

// --- in a tree ---

/// Seven ranks, of which each has two below it, if there are so many: 0 has 1 and 4, 1 has 2 and 3.
class InATree : public testing::Test {
 protected:
  void ask(int rank, const std::string& name, std::int64_t length = 4) {
    ranks_[rank].ask(kWorld, {tensor(name, length)}, now_);
  }
  /// The decisions that each rank receives when all have had their turns, those below first.
  std::vector<std::vector<std::string>> hear() {
    std::vector<std::vector<std::string>> all(7);
    for (int turn = 0; turn < 2; ++turn) {
      for (int rank = 6; rank >= 0; --rank) {
        for (auto& name : ranks_.hear(rank, now_)) all[static_cast<std::size_t>(rank)].push_back(name);
      }
    }
    return all;
  }
  TimePoint now_ = Clock::now() + std::chrono::hours(1);
  Ranks ranks_{7, 8192, false, 2};
};

TEST_F(InATree, ManySpeakWithOneVoice) {
  for (int step = 0; step < 3; ++step) {
    const int before = ranks_.messages();
    for (int rank = 0; rank < 7; ++rank) ranks_[rank].ask(kWorld, {tensor("a"), tensor("b")}, now_);
    EXPECT_THAT(hear(), testing::Each(ElementsAre("a", "b")));
    EXPECT_EQ(ranks_.messages() - before, 12) << "from and to each rank but the first";
  }
}

TEST_F(InATree, WhoIsMissingIsKnownAfterAMoment) {
  for (int rank = 0; rank < 7; ++rank) {
    if (rank != 3) ask(rank, "a");
  }
  hear();
  EXPECT_TRUE(ranks_[0].waiting(now_).empty());
  now_ += std::chrono::milliseconds(100);
  hear();
  ASSERT_EQ(ranks_[0].waiting(now_).size(), 1u);
  EXPECT_THAT(ranks_[0].waiting(now_).front().missing, ElementsAre(3));
  ask(3, "a");
  EXPECT_THAT(hear(), testing::Each(ElementsAre("a")));
}

TEST_F(InATree, AMismatchNamesTheRanks) {
  for (int rank = 0; rank < 7; ++rank) ask(rank, "a", rank == 5 ? 5 : 4);
  for (int rank = 6; rank > 0; --rank) ranks_.hear(rank, now_);
  const auto heard = ranks_[0].hear(now_, false);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_EQ(heard.front().decisions.front().status.message,
            "'a': tensor differs between ranks: float32[4] on ranks 0-4, 6, float32[5] on rank 5");
}

TEST_F(InATree, AJoinAndTheEndComeThroughIt) {
  Request join;
  join.operation = Operation::join;
  join.name = kJoinName;
  ranks_[6].ask(kWorld, {join}, now_);
  for (int rank = 0; rank < 6; ++rank) ask(rank, "a");
  EXPECT_THAT(hear(), testing::Each(ElementsAre("a")));
  for (int rank = 0; rank < 6; ++rank) ranks_[rank].ask(kWorld, {join}, now_);
  EXPECT_THAT(hear(), testing::Each(ElementsAre(kJoinName)));
  for (int rank = 0; rank < 7; ++rank) ask(rank, "a");
  EXPECT_THAT(hear(), testing::Each(ElementsAre("a")));
  for (int rank = 0; rank < 7; ++rank) ranks_[rank].leave(now_);
  int ended = 0;
  for (int turn = 0; turn < 2; ++turn) {
    for (int rank = 6; rank >= 0; --rank) {
      for (const auto& heard : ranks_[rank].hear(now_, false)) ended += heard.end ? 1 : 0;
    }
  }
  EXPECT_EQ(ended, 7);
}

TEST_F(InATree, GroupsAreDecidedAndReportsArrive) {
  for (int rank = 0; rank < 7; ++rank) ranks_[rank].add_group(1, {3, 6});
  ranks_[3].ask(1, {tensor("g")}, now_);
  ranks_[6].ask(1, {tensor("g")}, now_);
  ranks_[2].report(Report::delay, Bytes(1));
  const auto heard = hear();
  for (int rank = 0; rank < 7; ++rank)
    EXPECT_EQ(heard[static_cast<std::size_t>(rank)].size(), rank == 3 || rank == 6 ? 1u : 0u);
  const auto told = ranks_[0].take_reports();
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told.front().rank, 2);
}

TEST_F(InATree, NobodySpeaksForRanksThatAreNotBelowIt) {
  auto queues = std::make_shared<local::ControlQueues>(7, 2);
  const auto first = local::make_local_control(queues, 0);
  const auto other = local::make_local_control(queues, 1);
  Negotiator root(*first);
  Ballot ballot;
  ballot.ranks = RankSet(4);
  other->send(0, encode(ballot));
  EXPECT_THROW(root.hear(now_, false), Error);
  local::make_local_control(queues, 2)->send(0, encode(Ballot{}));
  EXPECT_THROW(root.hear(now_, false), Error) << "its parent is rank 1";
}

// --- with a roll call ---

/// Ranks that make the same step until its order is locked.
class Locked : public testing::Test {
 protected:
  void SetUp() override {
    for (int step = 0; step < 20 && !locked(); ++step)
      EXPECT_THAT(step_of_all(), everywhere({"a", "b", "c"}));
    ASSERT_TRUE(locked());
  }

  [[nodiscard]] bool locked() {
    return ranks_[0].is_locked() && ranks_[1].is_locked() && ranks_[2].is_locked();
  }

  void ask(int rank, const std::string& name, std::int64_t length = 4) {
    ranks_[rank].ask(kWorld, {tensor(name, length)}, now_);
  }

  /// The decisions that each rank receives when all have had their turns, again and again.
  std::vector<std::vector<std::string>> hear() {
    std::vector<std::vector<std::string>> all(3);
    for (int turn = 0; turn < 8; ++turn) {
      for (int rank = 0; rank < 3; ++rank) {
        const auto heard = ranks_.hear(rank, now_);
        auto& own = all[static_cast<std::size_t>(rank)];
        own.insert(own.end(), heard.begin(), heard.end());
      }
    }
    return all;
  }

  std::vector<std::vector<std::string>> step_of_all() {
    for (int rank = 0; rank < 3; ++rank) {
      for (const char* name : {"a", "b", "c"}) ask(rank, name);
    }
    return hear();
  }

  static std::vector<std::vector<std::string>> everywhere(const std::vector<std::string>& names) {
    return {names, names, names};
  }

  TimePoint now_{std::chrono::hours(1)};
  Ranks ranks_{3, 8192, true};
};

TEST_F(Locked, WhatAllAreReadyForIsDecidedInTheLockedOrder) {
  ask(2, "b");
  ask(0, "a");
  ask(1, "a");
  EXPECT_THAT(hear(), everywhere({}));
  ask(2, "a");
  EXPECT_THAT(hear(), everywhere({"a"}));
  ask(0, "b");
  ask(1, "b");
  EXPECT_THAT(hear(), everywhere({"b"}));
  EXPECT_TRUE(locked());
}

TEST_F(Locked, NothingIsSentWhileStepsAreEqual) {
  const auto before = ranks_.messages();
  for (int step = 0; step < 100; ++step) EXPECT_THAT(step_of_all(), everywhere({"a", "b", "c"}));
  EXPECT_TRUE(locked());
  EXPECT_EQ(ranks_.messages(), before);
}

TEST_F(Locked, OperationsWithoutANameArePartOfSteps) {
  const auto step_with = [&](int number) {
    const std::string mean = "mean.noname." + std::to_string(number);
    for (int rank = 0; rank < 3; ++rank) ask(rank, mean);
    EXPECT_THAT(hear(), everywhere({mean}));
    EXPECT_THAT(step_of_all(), everywhere({"a", "b", "c"}));
  };
  int number = 1;
  step_with(number++);
  EXPECT_FALSE(locked());
  while (number < 20 && !locked()) step_with(number++);
  ASSERT_TRUE(locked());
  const auto before = ranks_.messages();
  while (number < 60) step_with(number++);
  EXPECT_TRUE(locked());
  EXPECT_EQ(ranks_.messages(), before);
  for (int rank = 0; rank < 3; ++rank) ask(rank, "mean.noname." + std::to_string(number), 9);
  EXPECT_THAT(hear(), everywhere({"mean.noname." + std::to_string(number)})) << "of another shape";
  EXPECT_FALSE(locked());
}

TEST_F(Locked, AnotherTensorEndsItAndIsDecided) {
  for (int rank = 0; rank < 3; ++rank) ask(rank, "x");
  EXPECT_THAT(hear(), everywhere({"x"}));
  EXPECT_FALSE(locked());
  EXPECT_THAT(step_of_all(), everywhere({"a", "b", "c"}));
}

TEST_F(Locked, ATensorOfOneRankEndsItOnAll) {
  ask(1, "x");
  EXPECT_THAT(hear(), everywhere({}));
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(ranks_[rank].is_locked());
  EXPECT_EQ(ranks_[1].take_divergence(),
            "the steps were alike until rank 1 differed at 'a': it has submitted 'x' (allreduce float32[4]), "
            "which no "
            "step did before");
  EXPECT_EQ(ranks_[0].take_divergence(), "");
  ask(0, "x");
  ask(2, "x");
  EXPECT_THAT(hear(), everywhere({"x"}));
}

TEST_F(Locked, AnotherShapeIsAMismatchForAll) {
  ask(0, "a");
  ask(1, "a", 5);
  ask(2, "a");
  EXPECT_THAT(hear(), everywhere({"a"}));
  EXPECT_FALSE(locked());
}

TEST_F(Locked, ATensorThatARankCannotBringFailsForAllAndStepsGoOn) {
  ask(0, "a");
  ask(2, "a");
  auto failed = tensor("a");
  failed.failed_with = "backward() failed";
  ranks_[1].ask(kWorld, {failed}, now_);
  EXPECT_THAT(hear(), everywhere({"a"}));
  EXPECT_FALSE(locked());
  for (int step = 0; step < 40 && !locked(); ++step) EXPECT_THAT(step_of_all(), everywhere({"a", "b", "c"}));
  EXPECT_TRUE(locked());
}

TEST_F(Locked, WhatWasAskedForIsAskedForAgainAfterIt) {
  ask(0, "a");
  ask(2, "b");
  ask(1, "x");
  EXPECT_THAT(hear(), everywhere({}));
  ask(1, "a");
  ask(2, "a");
  EXPECT_THAT(hear(), everywhere({"a"}));
}

TEST_F(Locked, ATensorThatOneRankLeavesOutEndsItInAMoment) {
  for (int rank = 0; rank < 3; ++rank) ask(rank, "a");
  EXPECT_THAT(hear(), everywhere({"a"}));
  ask(0, "b");
  ask(1, "b");
  ask(2, "c");
  EXPECT_THAT(hear(), everywhere({}));
  EXPECT_TRUE(locked());
  now_ += std::chrono::milliseconds(300);
  EXPECT_THAT(hear(), everywhere({}));
  EXPECT_FALSE(locked());
  EXPECT_EQ(
      ranks_[0].take_divergence(),
      "the steps were alike until rank 0 differed at 'b': it has not been submitted by rank 2 for 300 ms");
  ask(2, "b");
  EXPECT_THAT(hear(), everywhere({"b"}));
}

TEST_F(Locked, WhoWaitsForWhatOthersComeFirstToDoesNotWaitLong) {
  ask(2, "b");
  static_cast<void>(ranks_[2].hear(now_, true));
  EXPECT_EQ(ranks_[2].next_look(), now_ + std::chrono::milliseconds(20));
  now_ += std::chrono::milliseconds(20);
  static_cast<void>(ranks_[2].hear(now_, true));
  EXPECT_EQ(ranks_[2].take_divergence(),
            "the steps were alike until rank 2 differed at 'a': it has submitted others of the step, and not "
            "that one "
            "for 20 ms");
  EXPECT_THAT(hear(), everywhere({}));
  EXPECT_FALSE(locked());
}

TEST_F(Locked, LeavingEndsItAndThenTheJob) {
  ask(0, "a");
  for (int rank = 0; rank < 3; ++rank) ranks_[rank].leave(now_);
  bool ended = false;
  for (int turn = 0; turn < 20; ++turn) {
    for (int rank = 0; rank < 3; ++rank) {
      for (const auto& heard : ranks_[rank].hear(now_, false)) ended = ended || (rank == 2 && heard.end);
    }
  }
  EXPECT_TRUE(ended);
}

TEST_F(Locked, AProcessSetEndsIt) {
  for (int rank = 0; rank < 3; ++rank) ranks_[rank].add_group(1, {0, 2});
  ranks_[2].ask(1, {tensor("y")}, now_);
  EXPECT_THAT(hear(), everywhere({}));
  EXPECT_FALSE(locked());
  ranks_[0].ask(1, {tensor("y")}, now_);
  EXPECT_THAT(hear(), ElementsAre(ElementsAre("1/y"), ElementsAre(), ElementsAre("1/y")));
}

TEST_F(Locked, ATimelineEndsIt) {
  ranks_[0].command(TraceCommand::start);
  std::vector<TraceCommand> heard(3, TraceCommand::none);
  for (int turn = 0; turn < 8; ++turn) {
    for (int rank = 0; rank < 3; ++rank) {
      for (const auto& news : ranks_[rank].hear(now_, false))
        heard[static_cast<std::size_t>(rank)] = news.trace;
    }
  }
  EXPECT_THAT(heard, testing::Each(TraceCommand::start));
}

TEST_F(Locked, EndsForAllToHearHowMuchTravelsTogether) {
  ranks_[0].fuse_up_to(1 << 20);
  std::vector<std::uint64_t> heard(3);
  for (int turn = 0; turn < 8; ++turn) {
    for (int rank = 0; rank < 3; ++rank) {
      for (const auto& news : ranks_[rank].hear(now_, false))
        heard[static_cast<std::size_t>(rank)] += news.fuse_up_to;
    }
  }
  EXPECT_THAT(heard, testing::Each(1 << 20));
}

TEST_F(Locked, StepsAreCountedAndWhoIsLateInThem) {
  static_cast<void>(ranks_[0].take_steps());
  for (int step = 0; step < 2; ++step) {
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == 2) now_ += std::chrono::milliseconds(50);
      for (const char* name : {"a", "b", "c"}) ask(rank, name);
      ranks_.hear(rank, now_);
    }
    static_cast<void>(hear());
  }
  const auto steps = ranks_[0].take_steps();
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back().behind[2], std::chrono::milliseconds(50));
  EXPECT_EQ(steps.back().behind[1], std::chrono::milliseconds(0));
}

TEST_F(Locked, ItIsLockedAgainWhenStepsAreEqualAgain) {
  ask(1, "x");
  hear();
  ASSERT_FALSE(locked());
  ask(0, "x");
  ask(2, "x");
  hear();
  for (int step = 0; step < 20 && !locked(); ++step) EXPECT_THAT(step_of_all(), everywhere({"a", "b", "c"}));
  EXPECT_TRUE(locked());
}

/// Ranks that turn as an engine does: only when something rings or says that there is more, or at the time of
/// their next look.
class Engines : public Locked {
 protected:
  void turn(int rank) {
    do {
      for (const auto& heard : ranks_[rank].hear(now_, true)) {
        for (const auto& decision : heard.decisions)
          heard_[static_cast<std::size_t>(rank)].push_back(decision.request.name);
        ended_ = ended_ || heard.end;
      }
    } while (ranks_[rank].has_more());
  }

  /// Until nothing will ever happen again, but for what is asked.
  void run() {
    std::vector<std::uint64_t> seen(3);
    for (int rank = 0; rank < 3; ++rank) turn(rank);
    while (true) {
      bool rang = false;
      TimePoint next = TimePoint::max();
      for (int rank = 0; rank < 3; ++rank) {
        const std::uint64_t rings = ranks_.rings(rank);
        if (std::exchange(seen[static_cast<std::size_t>(rank)], rings) != rings) {
          rang = true;
          turn(rank);
        }
        next = std::min(next, ranks_[rank].next_look());
      }
      if (rang) continue;
      if (next == TimePoint::max()) return;
      now_ = std::max(now_, next);
      for (int rank = 0; rank < 3; ++rank) {
        if (ranks_[rank].next_look() <= now_) turn(rank);
      }
    }
  }

  std::vector<std::vector<std::string>> heard_{3};
  bool ended_ = false;
};

TEST_F(Engines, DoNotWaitForEverForWhatNobodySubmits) {
  for (int rank = 0; rank < 3; ++rank) {
    ask(rank, "a");
    ask(rank, "c");
  }
  run();
  EXPECT_THAT(heard_, everywhere({"a", "c"}));
}

TEST_F(Engines, AWishToEndTheLockOutlivesTheRoundInWhichItCame) {
  ask(0, "a");
  turn(0);  // has answered in this round
  ask(0, "x");
  ask(1, "a");
  ask(2, "a");
  run();
  EXPECT_THAT(heard_, everywhere({"a"}));
  for (int rank = 0; rank < 3; ++rank) EXPECT_FALSE(ranks_[rank].is_locked());
  ASSERT_EQ(ranks_[0].waiting(now_).size(), 1u);
  EXPECT_EQ(ranks_[0].waiting(now_).front().name, "x");
}

TEST_F(Engines, AProcessSetWhoseBallotsComeAfterTheLockEndsIt) {
  for (int rank = 0; rank < 3; ++rank) ranks_[rank].add_group(1, {1, 2});
  ranks_[1].ask(1, {tensor("g")}, now_);
  ranks_[2].ask(1, {tensor("g")}, now_);
  run();
  EXPECT_THAT(heard_, ElementsAre(ElementsAre(), ElementsAre("g"), ElementsAre("g")));
}

TEST_F(Engines, WhoDoesNotAnswerWhenTheLockIsToEndIsMissing) {
  ask(0, "x");
  turn(0);
  turn(1);
  const auto waiting = ranks_[0].waiting(now_);
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting.front().name, "a");
  EXPECT_EQ(waiting.front().missing, std::vector<int>{2});
  EXPECT_EQ(ranks_[0].oldest(), now_);
}

TEST(Negotiator, WhoLeavesWhileALockIsOnItsWayLeavesItsProcessSetsOnce) {
  Ranks ranks(2, 8192, true);
  for (int rank = 0; rank < 2; ++rank) ranks[rank].add_group(1, {0, 1});
  for (int step = 0; step < 20 && !ranks[0].is_locked(); ++step) {
    if (step > 0) ranks.hear(1);
    for (int rank = 0; rank < 2; ++rank) ranks[rank].ask(kWorld, {tensor("a")}, kStart);
    ranks.hear(0);
  }
  ASSERT_TRUE(ranks[0].is_locked());
  ranks[1].leave(kStart);  // it has not heard the verdict yet
  bool ended = false;
  for (int turn = 0; turn < 20; ++turn) {
    for (int rank = 0; rank < 2; ++rank) {
      for (const auto& heard : ranks[rank].hear(kStart, false)) ended = ended || heard.end;
    }
    if (turn == 10) ranks[0].leave(kStart);
  }
  EXPECT_TRUE(ended);
}

TEST(Negotiator, AnyCourseOfLockedStepsIsTheSameOnAllRanks) {
  std::mt19937 random(7);
  for (int course = 0; course < 200; ++course) {
    Ranks ranks(3, 8192, true);
    TimePoint now = kStart + std::chrono::hours(1);
    std::vector<std::vector<std::string>> heard(3);
    std::vector<std::vector<std::string>> asks(3);  // in turn
    for (int step = 0; step < 12; ++step) {
      std::vector<std::string> names{"a", "b", "c", "d"};
      if (random() % 6 == 0) names.push_back("x" + std::to_string(step));
      if (random() % 8 == 0) names.pop_back();
      for (auto& own : asks) {
        std::shuffle(names.begin(), names.end(), random);
        own = names;
      }
      std::size_t before = heard[0].size();
      for (int idle = 0; idle < 2000; ++idle) {
        const auto rank = static_cast<int>(random() % 3);
        auto& own = asks[static_cast<std::size_t>(rank)];
        if (!own.empty() && random() % 2 == 0) {
          ranks[rank].ask(kWorld, {tensor(own.back())}, now);
          own.pop_back();
        } else {
          for (auto& name : ranks.hear(rank, now))
            heard[static_cast<std::size_t>(rank)].push_back(std::move(name));
        }
        if (random() % 50 == 0) now += std::chrono::milliseconds(30);
        if (std::all_of(heard.begin(), heard.end(),
                        [&](const auto& list) { return list.size() == before + names.size(); }))
          break;
      }
      for (const auto& list : heard) ASSERT_EQ(list.size(), before + names.size());
    }
    ASSERT_EQ(heard[1], heard[0]);
    ASSERT_EQ(heard[2], heard[0]);
  }
}

}  // namespace
}  // namespace hora
