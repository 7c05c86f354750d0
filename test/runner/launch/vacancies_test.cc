// SPDX-License-Identifier: Apache-2.0
#include "runner/launch/vacancies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hora::hrun {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

const TimePoint kStart{std::chrono::hours(1)};

TEST(Vacancies, AreFilledAtOnceAndThenAfterRestsThatGrow) {
  Vacancies vacancies({0, 0}, {.most = 100, .shortest_rest = seconds(10), .longest_rest = seconds(35)});
  TimePoint now = kStart;
  for (const int rest : {0, 10, 20, 35, 35}) {
    EXPECT_EQ(vacancies.open(1, now), now + seconds(rest));
    EXPECT_EQ(vacancies.next(), now + seconds(rest));
    EXPECT_THAT(vacancies.fill(now + seconds(rest) - std::chrono::milliseconds(1)), IsEmpty());
    now += seconds(rest);
    EXPECT_THAT(vacancies.fill(now), ElementsAre(1));
    EXPECT_THAT(vacancies.fill(now), IsEmpty());
  }
  EXPECT_EQ(vacancies.open(0, now), now) << "another rank";
  EXPECT_EQ(vacancies.open(1, now + seconds(36)), now + seconds(36)) << "its failures are forgotten";
}

TEST(Vacancies, OfAHostThatFailsRestTogetherIfThereAreOthers) {
  for (const bool several : {false, true}) {
    Vacancies vacancies(several ? std::vector{0, 0, 0, 0, 1} : std::vector{0, 0, 0, 0, 0}, {.most = 100});
    EXPECT_EQ(vacancies.open(0, kStart), kStart);
    EXPECT_EQ(vacancies.open(1, kStart), kStart);
    EXPECT_EQ(vacancies.open(2, kStart), kStart + seconds(several ? 10 : 0));
    EXPECT_EQ(vacancies.open(4, kStart), kStart) << "of the other host";
    EXPECT_EQ(vacancies.fill(kStart), several ? std::vector{4} : (std::vector{0, 1, 2, 4}));
    EXPECT_EQ(vacancies.fill(kStart + seconds(10)), several ? (std::vector{0, 1, 2}) : std::vector<int>{});
  }
}

TEST(Vacancies, AreFilledNoMoreOftenThanTheUserWants) {
  Vacancies vacancies({0, 0, 0}, {.most = 2});
  EXPECT_TRUE(vacancies.open(0, kStart));
  EXPECT_TRUE(vacancies.open(1, kStart));
  EXPECT_FALSE(vacancies.open(2, kStart));
  EXPECT_THAT(vacancies.fill(kStart), ElementsAre(0, 1));
  EXPECT_FALSE(vacancies.open(0, kStart));
  EXPECT_EQ(vacancies.next(), TimePoint::max());
}

TEST(Vacancies, OfALostHostAreNeverFilled) {
  Vacancies vacancies({0, 0, 1, 1}, {.most = 100});
  vacancies.open(0, kStart);
  vacancies.open(2, kStart);
  vacancies.close_host(1);
  EXPECT_THAT(vacancies.fill(kStart), ElementsAre(0));
}

}  // namespace
}  // namespace hora::hrun
