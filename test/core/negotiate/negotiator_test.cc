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
      const auto heard = (*this)[rank].hear(kAtOnce);
      if (heard.decisions.empty()) return all;
      for (const auto& decision : heard.decisions) all.push_back(decision.request.name);
    }
  }

 private:
  std::vector<std::unique_ptr<Control>> controls_;
  std::vector<std::unique_ptr<Negotiator>> seats_;
};

TEST(Negotiator, EveryRankHearsTheSameDecisionsInTheSameOrder) {
  Seats seats(3);
  seats[2].ask({tensor("b"), tensor("a")}, kNow);
  seats[0].ask({tensor("a"), tensor("b")}, kNow);
  EXPECT_THAT(seats.hear(0), ElementsAre());
  seats[1].ask({tensor("a"), tensor("b")}, kNow);
  const auto order = seats.hear(0);
  EXPECT_EQ(order.size(), 2u);
  EXPECT_EQ(seats.hear(1), order);
  EXPECT_EQ(seats.hear(2), order);
}

TEST(Negotiator, AloneItDecidesAtOnce) {
  Seats seats(1);
  seats[0].ask({tensor("a")}, kNow);
  EXPECT_THAT(seats.hear(0), ElementsAre("a"));
}

TEST(Negotiator, ReportsTheEndWhenAllHaveLeft) {
  Seats seats(2);
  seats[0].leave(kNow);
  seats[1].leave(kNow);
  EXPECT_TRUE(seats[0].hear(kAtOnce).end);
  EXPECT_TRUE(seats[1].hear(kAtOnce).end);
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
  seat.ask({tensor("a rather long name of a parameter")}, kNow);
  Negotiator root(*first);
  root.ask({tensor("a rather long name of a parameter")}, kNow);
  root.hear(kAtOnce);
  EXPECT_EQ(seat.hear(kAtOnce).decisions.size(), 1u);
  seat.ask({tensor("a rather long name of a parameter")}, kNow);
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
        seats[rank].ask({wanted.begin(), half}, kNow);
        seats[rank].ask({half, wanted.end()}, kNow);
      }
      const auto order = seats.hear(0);
      EXPECT_EQ(order.size(), wanted.size());
      for (int rank = 1; rank < 3; ++rank) EXPECT_EQ(seats.hear(rank), order);
    }
  }
}

TEST(Negotiator, CountsHowLongATensorWaitsFromWhenItWasAskedFor) {
  auto office = std::make_shared<PostOffice>(2);
  const auto first = make_local_control(office, 0);
  const auto second = make_local_control(office, 1);
  Negotiator root(*first);
  Negotiator seat(*second);
  root.hear(kAtOnce);
  const TimePoint asked = Clock::now();  // long after the root began to wait for it
  seat.ask({tensor("a")}, asked);
  root.hear(kAtOnce);
  EXPECT_GE(root.coordinator()->oldest(), asked);
}

TEST(Negotiator, DoesNotHearThatFailedWhatItHasNotAskedFor) {
  Seats seats(3);
  seats[2].leave(kNow);
  seats[0].ask({tensor("a")}, kNow);
  EXPECT_THAT(seats.hear(0), ElementsAre("a"));
  EXPECT_THAT(seats.hear(1), ElementsAre());
  seats[1].ask({tensor("a")}, kNow);
  EXPECT_THAT(seats.hear(0), ElementsAre());
  EXPECT_THAT(seats.hear(1), ElementsAre("a"));
}

}  // namespace
}  // namespace hora
