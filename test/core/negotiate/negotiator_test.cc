// SPDX-License-Identifier: Apache-2.0
#include "core/negotiate/negotiator.h"

#include "core/backend/local/post_office.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hora {
namespace {

using testing::ElementsAre;

constexpr TimePoint kNow{};
constexpr TimePoint kAtOnce = TimePoint::min();

Request tensor(const std::string& name, std::int64_t length = 4) {
  Request request;
  request.name = name;
  request.shape = {length};
  return request;
}

/// Some seats at one negotiation, all driven by one thread: nothing here depends on timing.
class Seats {
 public:
  explicit Seats(int size, std::size_t capacity = 8192) {
    auto office = std::make_shared<PostOffice>(size);
    for (int rank = 0; rank < size; ++rank) controls_.push_back(make_local_control(office, rank));
    for (auto& control : controls_) seats_.push_back(std::make_unique<Negotiator>(*control, capacity));
  }

  Negotiator& operator[](int rank) { return *seats_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int size() const { return static_cast<int>(seats_.size()); }

  /// What a rank hears without waiting, in one list.
  std::vector<std::string> hear(int rank) {
    std::vector<std::string> all;
    for (;;) {
      const auto news = (*this)[rank].hear(kAtOnce);
      if (news.empty()) return all;
      for (const auto& heard : news) {
        for (const auto& decision : heard.decisions)
          all.push_back((heard.group == kWorld ? "" : std::to_string(heard.group) + "/") +
                        decision.request.name);
      }
    }
  }

 private:
  std::vector<std::unique_ptr<Control>> controls_;
  std::vector<std::unique_ptr<Negotiator>> seats_;
};

TEST(Negotiator, EveryRankHearsTheSameDecisionsInTheSameOrder) {
  Seats seats(3);
  seats[2].ask(kWorld, {tensor("b"), tensor("a")}, kNow);
  seats[0].ask(kWorld, {tensor("a"), tensor("b")}, kNow);
  EXPECT_THAT(seats.hear(0), ElementsAre());
  seats[1].ask(kWorld, {tensor("a"), tensor("b")}, kNow);
  const auto order = seats.hear(0);
  EXPECT_EQ(order.size(), 2u);
  EXPECT_EQ(seats.hear(1), order);
  EXPECT_EQ(seats.hear(2), order);
}

TEST(Negotiator, AloneItDecidesAtOnce) {
  Seats seats(1);
  seats[0].ask(kWorld, {tensor("a")}, kNow);
  EXPECT_THAT(seats.hear(0), ElementsAre("a"));
}

TEST(Negotiator, ReportsTheEndWhenAllHaveLeft) {
  Seats seats(2);
  seats[0].leave(kNow);
  seats[1].leave(kNow);
  EXPECT_TRUE(seats[0].hear(kAtOnce).back().end);
  EXPECT_TRUE(seats[1].hear(kAtOnce).back().end);
}

TEST(Negotiator, ThrowsTheLossOfARank) {
  auto office = std::make_shared<PostOffice>(2);
  const auto control = make_local_control(office, 0);
  Negotiator seat(*control);
  office->lose(1, {Code::aborted, "rank 1 is gone"});
  EXPECT_THROW(seat.hear(kAtOnce), Error);
}

TEST(Negotiator, RepeatedStepsSendNoNames) {
  auto office = std::make_shared<PostOffice>(2);
  const auto first = make_local_control(office, 0);
  const auto second = make_local_control(office, 1);
  Negotiator seat(*second);
  seat.ask(kWorld, {tensor("a rather long name of a parameter")}, kNow);
  Negotiator root(*first);
  root.ask(kWorld, {tensor("a rather long name of a parameter")}, kNow);
  root.hear(kAtOnce);
  EXPECT_EQ(seat.hear(kAtOnce).front().decisions.size(), 1u);
  seat.ask(kWorld, {tensor("a rather long name of a parameter")}, kNow);
  EXPECT_LE(first->receive(kAtOnce)->bytes.size(), 8u);
}

// Random submission order, shapes that change, names that come and go, and a schedule that is too small for
// all of them: ranks always hear the same, whatever is forgotten in between.
TEST(Negotiator, RanksAgreeWhateverIsForgotten) {
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Seats seats(3, 4);
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
        seats[rank].ask(kWorld, {wanted.begin(), half}, kNow);
        seats[rank].ask(kWorld, {half, wanted.end()}, kNow);
      }
      const auto order = seats.hear(0);
      EXPECT_EQ(order.size(), wanted.size());
      for (int rank = 1; rank < 3; ++rank) EXPECT_EQ(seats.hear(rank), order);
    }
  }
}

TEST(Negotiator, CountsHowLongATensorWaitsFromWhenTheAskingCameHoweverLateItIsRead) {
  auto office = std::make_shared<PostOffice>(2);
  const auto first = make_local_control(office, 0);
  const auto second = make_local_control(office, 1);
  Negotiator root(*first);
  Negotiator seat(*second);
  root.hear(kAtOnce);
  const TimePoint asked = Clock::now();  // long after the root began to wait for it
  seat.ask(kWorld, {tensor("a")}, asked);
  const TimePoint read = Clock::now();
  root.hear(kAtOnce);
  EXPECT_GE(root.oldest(), asked);
  EXPECT_LE(root.oldest(), read);
}

TEST(Negotiator, AnInquiryReachesOneRankAndCountsAsNoVerdict) {
  Seats seats(3);
  seats[0].inquire(1);
  const auto heard = seats[1].hear(kAtOnce);
  ASSERT_EQ(heard.size(), 1u);
  EXPECT_TRUE(heard.front().inquiry);
  EXPECT_TRUE(seats[2].hear(kAtOnce).empty());
  for (int rank = 0; rank < 3; ++rank) seats[rank].ask(kWorld, {tensor("a")}, kNow);
  for (int rank = 0; rank < 3; ++rank) EXPECT_THAT(seats.hear(rank), ElementsAre("a"));
}

TEST(Negotiator, ReportsReachRankZeroInOrder) {
  Seats seats(2);
  seats[1].report(Report::delay, Bytes(1));
  seats[1].leave(kNow);
  seats[1].report(Report::trace, Bytes(2));
  seats[0].hear(kAtOnce);
  seats[0].report(Report::account, Bytes(3));
  const auto told = seats[0].take_reports();
  ASSERT_EQ(told.size(), 3u);
  EXPECT_EQ(told[0].rank, 1);
  EXPECT_EQ(told[0].kind, Report::delay);
  EXPECT_EQ(told[1].content, Bytes(2));
  EXPECT_EQ(told[2].rank, 0);
  EXPECT_TRUE(seats[0].take_reports().empty());
}

TEST(Negotiator, DoesNotHearThatFailedWhatItHasNotAskedFor) {
  Seats seats(3);
  seats[2].leave(kNow);
  seats[0].ask(kWorld, {tensor("a")}, kNow);
  EXPECT_THAT(seats.hear(0), ElementsAre("a"));
  EXPECT_THAT(seats.hear(1), ElementsAre());
  seats[1].ask(kWorld, {tensor("a")}, kNow);
  EXPECT_THAT(seats.hear(0), ElementsAre());
  EXPECT_THAT(seats.hear(1), ElementsAre("a"));
}

TEST(Negotiator, OnlyMembersHearWhatConcernsAGroup) {
  Seats seats(3);
  for (int rank = 0; rank < 3; ++rank) seats[rank].add_group(1, {1, 2});
  seats[1].ask(1, {tensor("a")}, kNow);
  seats[2].ask(1, {tensor("a")}, kNow);
  EXPECT_THAT(seats.hear(0), ElementsAre()) << "rank 0 decides, but is no member";
  EXPECT_THAT(seats.hear(1), ElementsAre("1/a"));
  EXPECT_THAT(seats.hear(2), ElementsAre("1/a"));
}

TEST(Negotiator, GroupsHaveNamesOfTheirOwn) {
  Seats seats(2);
  for (int rank = 0; rank < 2; ++rank) seats[rank].add_group(1, {0, 1});
  for (int rank = 0; rank < 2; ++rank) {
    seats[rank].ask(kWorld, {tensor("a", 4)}, kNow);
    seats[rank].ask(1, {tensor("a", 5)}, kNow);
  }
  EXPECT_THAT(seats.hear(0), testing::UnorderedElementsAre("a", "1/a"));
  EXPECT_THAT(seats.hear(1), testing::UnorderedElementsAre("a", "1/a"));
}

// Whatever is asked for in groups that overlap, in any order: two ranks hear what concerns both in one order.
TEST(Negotiator, RanksInSeveralGroupsHearOneOrder) {
  const std::vector<std::vector<int>> groups{{0, 1, 2}, {0, 1}, {1, 2}, {0, 2}};
  for (unsigned seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Seats seats(3);
    for (int rank = 0; rank < 3; ++rank) {
      for (int group = 1; group < 4; ++group)
        seats[rank].add_group(group, groups[static_cast<std::size_t>(group)]);
    }
    std::vector<std::vector<std::string>> heard(3);
    for (int step = 0; step < 20; ++step) {
      std::vector<std::pair<int, int>> asks;  // rank, group
      for (int group = 0; group < 4; ++group) {
        for (const int rank : groups[static_cast<std::size_t>(group)]) asks.emplace_back(rank, group);
      }
      std::shuffle(asks.begin(), asks.end(), random);
      for (const auto& [rank, group] : asks) {
        seats[rank].ask(group, {tensor(std::to_string(step % 3))}, kNow);
        if (random() % 2 == 0) {
          for (auto& name : seats.hear(0)) heard[0].push_back(std::move(name));
        }
      }
      for (int rank = 0; rank < 3; ++rank) {
        for (auto& name : seats.hear(rank)) heard[static_cast<std::size_t>(rank)].push_back(std::move(name));
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
  Seats seats(2);
  for (int rank = 0; rank < 2; ++rank) seats[rank].add_group(1, {0, 1});
  seats[1].ask(1, {tensor("late")}, kNow);
  seats[0].remove_group(1);
  EXPECT_THAT(seats.hear(0), ElementsAre());
  seats[1].ask(2, {tensor("never")}, kNow);  // this rank is in no such group
  EXPECT_THAT(seats.hear(0), ElementsAre());
}

}  // namespace
}  // namespace hora
